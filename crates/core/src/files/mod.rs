//! The upper half: inodes, names, contents and attributes, as programs see them.
//!
//! [`inode`] is an inode in memory; [`dir`] and [`namei`] are names, [`file`] and [`pages`] contents, [`mapping`] says
//! which blocks they lie in, [`attr`], [`xattr`] and [`acl`] are attributes. [`orphans`] are inodes without a name, and
//! [`reap`] deletes those that nobody uses any more. [`noted`] is written down for [`crate::durable`], which decides
//! what becomes durable when, and [`overwrites`] are contents that were written in place.

pub(crate) mod acl;
pub(crate) mod attr;
pub(crate) mod dir;
pub(crate) mod errseq;
pub(crate) mod file;
pub(crate) mod inode;
pub(crate) mod mapping;
pub(crate) mod namei;
pub(crate) mod noted;
pub(crate) mod orphans;
pub(crate) mod overwrites;
pub(crate) mod pages;
mod reap;
pub(crate) mod xattr;
