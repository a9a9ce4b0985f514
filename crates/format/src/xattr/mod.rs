//! Extended attributes: a list of entries in one stream of bytes. Format section 9.
//!
//! The stream ("area") is the inode's inline part, if it has one, followed by the payload of the xattr node, if there
//! is one. The functions here work on the two joined in one buffer; the caller splits it again, and frees the node if
//! [`used`] says that the inline part is enough. An area without the magic holds no attributes.

mod acl;
mod area;
mod names;

pub use acl::{Acl, AclEntry, AclTag};
pub use area::{Xattr, entries, get, is_whole, remove, set, used};
pub use names::{XattrName, index};
