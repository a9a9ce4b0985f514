//! The checker on volumes of mkfs.f2fs and Linux: silent on whole ones, and exact on each fault that is planted.

#[path = "../it/common/images.rs"]
mod common;

mod agree;
mod editor;
mod images;
mod memory;
mod mutate;
mod plants;
mod quota;
