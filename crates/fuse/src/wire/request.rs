//! Reading requests: the header, which message it is, and a cursor over its arguments.
//!
//! The kernel is trusted to be the kernel, but not to be this version of it: a message that is too short or unknown is
//! an error value.

use super::abi::InHeader;
use rustix::io::Errno;
use zerocopy::FromBytes;

/// Declares the messages and how their numbers map to them.
macro_rules! opcodes {
    ($($name:ident = $number:literal,)*) => {
        /// Which message a request is.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Opcode { $($name = $number,)* }

        impl Opcode {
            /// The message with this number; `None` if it came into the protocol later.
            pub(crate) fn from_number(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$name),)*
                    _ => None,
                }
            }
        }
    };
}

impl Opcode {
    /// Above the number of each message.
    pub(crate) const END: usize = Opcode::CopyFileRange64 as usize + 1;

    /// The name of `fuse.h`, in lower case and without underscores.
    pub(crate) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

opcodes! {
    Lookup = 1,
    Forget = 2,
    Getattr = 3,
    Setattr = 4,
    Readlink = 5,
    Symlink = 6,
    Mknod = 8,
    Mkdir = 9,
    Unlink = 10,
    Rmdir = 11,
    Rename = 12,
    Link = 13,
    Open = 14,
    Read = 15,
    Write = 16,
    Statfs = 17,
    Release = 18,
    Fsync = 20,
    Setxattr = 21,
    Getxattr = 22,
    Listxattr = 23,
    Removexattr = 24,
    Flush = 25,
    Init = 26,
    Opendir = 27,
    Readdir = 28,
    Releasedir = 29,
    Fsyncdir = 30,
    Access = 34,
    Create = 35,
    Interrupt = 36,
    Destroy = 38,
    Ioctl = 39,
    NotifyReply = 41,
    BatchForget = 42,
    Fallocate = 43,
    Readdirplus = 44,
    Rename2 = 45,
    Lseek = 46,
    CopyFileRange = 47,
    Syncfs = 50,
    Tmpfile = 51,
    Statx = 52,
    CopyFileRange64 = 53,
}

/// One request of the kernel.
pub(crate) struct Request<'a> {
    pub(crate) header: InHeader,
    /// `None`: a message of a later protocol.
    pub(crate) opcode: Option<Opcode>,
    pub(crate) args: Args<'a>,
}

impl<'a> Request<'a> {
    /// Takes a message apart.
    ///
    /// # Errors
    /// `EIO` if it is shorter than its header or than its header says.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, Errno> {
        let (header, _) = InHeader::read_from_prefix(bytes).map_err(|_| Errno::IO)?;
        let extensions = usize::from(header.total_extlen) * 8;
        let end = (header.len as usize).checked_sub(extensions).ok_or(Errno::IO)?;
        if header.len as usize > bytes.len() {
            return Err(Errno::IO);
        }
        let args = bytes.get(size_of::<InHeader>()..end).ok_or(Errno::IO)?;
        Ok(Request { header, opcode: Opcode::from_number(header.opcode), args: Args { rest: args } })
    }
}

/// The arguments of a request, taken from the front.
#[derive(Clone, Copy)]
pub(crate) struct Args<'a> {
    rest: &'a [u8],
}

impl<'a> Args<'a> {
    /// The next structure.
    ///
    /// # Errors
    /// `EIO` if the message ends before it.
    pub(crate) fn take<T: FromBytes>(&mut self) -> Result<T, Errno> {
        let (value, rest) = T::read_from_prefix(self.rest).map_err(|_| Errno::IO)?;
        self.rest = rest;
        Ok(value)
    }

    /// The next name: bytes up to a NUL, which is no part of it.
    ///
    /// # Errors
    /// `EIO` if no NUL follows.
    pub(crate) fn name(&mut self) -> Result<&'a [u8], Errno> {
        let end = self.rest.iter().position(|byte| *byte == 0).ok_or(Errno::IO)?;
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest.get(1..).unwrap_or_default();
        Ok(name)
    }

    /// All that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// `EIO` if there are fewer.
    pub(crate) fn bytes(&mut self, len: u32) -> Result<&'a [u8], Errno> {
        let (bytes, rest) = self.rest.split_at_checked(len as usize).ok_or(Errno::IO)?;
        self.rest = rest;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::abi::{MkdirIn, WriteIn};
    use zerocopy::IntoBytes;

    fn message(opcode: u32, body: &[u8]) -> Vec<u8> {
        let len = (40 + body.len()) as u32;
        let header =
            InHeader { len, opcode, unique: 7, nodeid: 1, uid: 2, gid: 3, pid: 4, total_extlen: 0, padding: 0 };
        [header.as_bytes(), body].concat()
    }

    #[test]
    fn arguments_come_in_order() {
        let body = [MkdirIn { mode: 0o755, umask: 0o22 }.as_bytes(), b"name\0"].concat();
        let bytes = message(9, &body);
        let mut request = Request::parse(&bytes).unwrap();
        assert_eq!((request.opcode, request.header.unique), (Some(Opcode::Mkdir), 7));
        let fixed: MkdirIn = request.args.take().unwrap();
        assert_eq!((fixed.mode, fixed.umask), (0o755, 0o22));
        assert_eq!(request.args.name().unwrap(), b"name");
        assert_eq!(request.args.name(), Err(Errno::IO));
    }

    #[test]
    fn every_cut_of_a_message_is_an_error_or_a_shorter_message() {
        let whole = message(16, &[0; size_of::<WriteIn>()]);
        for len in 0..whole.len() {
            assert!(Request::parse(&whole[..len]).is_err(), "{len} bytes pass for {}", whole.len());
        }
        let mut short = message(16, &[0; 8]);
        assert!(Request::parse(&short).unwrap().args.take::<WriteIn>().is_err());
        assert!(Request::parse(&short).unwrap().args.bytes(9).is_err());
        // More extension than message.
        short[36] = 99;
        assert!(Request::parse(&short).is_err());
    }

    #[test]
    fn extensions_are_no_arguments() {
        let mut bytes = message(9, &[[1u8; 8], [2; 8]].concat());
        bytes[36] = 1;
        let mut request = Request::parse(&bytes).unwrap();
        assert_eq!(request.args.bytes(8).unwrap(), [1; 8]);
        assert!(request.args.bytes(1).is_err());
    }

    #[test]
    fn later_messages_are_told_apart() {
        assert_eq!(Request::parse(&message(54, &[])).unwrap().opcode, None);
        assert_eq!(Request::parse(&message(0, &[])).unwrap().opcode, None);
        assert_eq!(Request::parse(&message(53, &[])).unwrap().opcode, Some(Opcode::CopyFileRange64));
    }
}
