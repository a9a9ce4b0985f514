//! Mounting and unmounting as a user, through `fusermount3`.
//!
//! The helper is set-user-id root. It mounts what the user may mount, and hands the connection to the kernel back over
//! a socket whose number it finds in its environment.

use super::Attached;
use crate::error::{Error, Result};
use crate::options::{Allow, FuseOptions};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, recvmsg};
use std::ffi::OsString;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

const PROGRAM: &str = "fusermount3";

/// Mounts.
pub(super) fn mount(dir: &Path, options: &FuseOptions) -> Result<Attached> {
    let broken = |error: std::io::Error| Error::Helper(error.to_string());
    if let Some(label) = options.label_options(true).first() {
        return Err(Error::Helper(format!("only root can mount with {label}")));
    }
    let (ours, theirs) = UnixStream::pair().map_err(broken)?;
    fcntl_setfd(&theirs, FdFlags::empty()).map_err(|errno| broken(errno.into()))?;
    let run = Command::new(PROGRAM)
        .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
        .arg("-o")
        .arg(option_list(options))
        .arg("--")
        .arg(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn();
    drop(theirs);
    let child = run.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            Error::Helper(format!("{PROGRAM} is not installed (Debian: apt install fuse3)"))
        }
        _ => broken(error),
    })?;
    let received = receive_fd(&ours);
    let output = child.wait_with_output().map_err(broken)?;
    match received {
        Some(fd) if output.status.success() => Ok(Attached { fd, is_block_device: false, by_helper: true }),
        _ => Err(Error::Helper(said(&output))),
    }
}

/// Unmounts.
pub(super) fn unmount(dir: &Path, lazily: bool) -> std::io::Result<()> {
    let mut command = Command::new(PROGRAM);
    command.arg("-u").args(lazily.then_some("-z")).arg("--").arg(dir).stdin(Stdio::null());
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let text = said(&output);
    // The helper has no codes, only words (in English, whatever the locale).
    let kind = if text.contains("busy") { std::io::ErrorKind::ResourceBusy } else { std::io::ErrorKind::Other };
    Err(std::io::Error::new(kind, text))
}

fn said(output: &std::process::Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let text = text.trim();
    if text.is_empty() { format!("{PROGRAM} ended with {}", output.status) } else { text.replace('\n', "; ") }
}

fn option_list(options: &FuseOptions) -> OsString {
    let name = options.name.as_ref().map_or(options.source.as_os_str(), |name| name.as_ref());
    let mut list = OsString::from("fsname=");
    // A comma would end the option.
    for (index, piece) in name.as_encoded_bytes().split(|byte| *byte == b',').enumerate() {
        if index > 0 {
            list.push("\\,");
        }
        list.push(String::from_utf8_lossy(piece).as_ref());
    }
    list.push(format!(",subtype={},default_permissions", options.subtype));
    let switches = [
        (options.read_only, ",ro"),
        (!options.exec, ",noexec"),
        (options.noatime, ",noatime"),
        (options.nosymfollow, ",nosymfollow"),
        (options.allow.is_some_and(|allow| allow != Allow::Owner), ",allow_other"),
    ];
    for (_, text) in switches.into_iter().filter(|(on, _)| *on) {
        list.push(text);
    }
    list
}

/// The file descriptor that comes over a socket, if one does before the other end is closed.
fn receive_fd(socket: &UnixStream) -> Option<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0; 1];
    let mut pieces = [IoSliceMut::new(&mut byte)];
    let message = loop {
        match recvmsg(socket, &mut pieces, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            received => break received.ok()?,
        }
    };
    if message.flags.contains(ReturnFlags::CTRUNC) {
        return None;
    }
    control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    })
}
