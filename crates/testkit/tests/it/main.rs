//! The test kit itself: images that Linux and f2fs-tools make, manifests, the machine.

mod corpus;
mod golden;
mod images;
mod manifest;
mod tools;
mod uml;
