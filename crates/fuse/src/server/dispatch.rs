//! From the bytes of a request to its handler, and what holds for all of them: who may come in, panics, errors.

use super::files::LARGE;
use super::shutdown::{asks_to_shut_down, outlives};
use super::{Answer, Call, Kernel, Server, State};
use crate::wire::abi::{BatchForgetIn, ForgetIn, ForgetOne, InHeader, ReadIn, WriteIn};
use crate::wire::flags::WRITE_CACHE;
use crate::wire::flags::linux::O_DIRECT;
use crate::wire::{Args, Opcode, ROOT_NODE, Reply, Request};
use rustix::io::Errno;
use std::panic::{AssertUnwindSafe, catch_unwind};
use steadyfs_core::Fs;

/// From so many bytes on a request takes longer than to wake another processor.
const MUCH: u32 = 512 << 10;

/// What to do when a request has been handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handled {
    /// Send the reply.
    Reply,
    /// The kernel expects none.
    Silent,
}

impl Server {
    /// Handles one request, given as its bytes.
    pub(crate) fn handle(&self, bytes: &[u8], reply: &mut Reply, kernel: &dyn Kernel) -> Handled {
        let Ok(request) = Request::parse(bytes) else {
            // Without a header there is nobody to answer to.
            tracing::error!(len = bytes.len(), "a request of the kernel is cut off");
            return Handled::Silent;
        };
        let Request { header, opcode, args } = request;
        reply.start(header.unique);
        self.counts.count(opcode);
        tracing::trace!(?opcode, node = header.nodeid, uid = header.uid, "request");
        let traced = self.trace_begin(bytes);
        let handled = catch_unwind(AssertUnwindSafe(|| self.route(header, opcode, args, reply, kernel)));
        if let Some(traced) = traced {
            let failed = match &handled {
                Ok(Ok(_)) => None,
                Ok(Err(fail)) => Some(fail.0),
                Err(_) => Some(Errno::IO),
            };
            self.trace_end(traced, failed, reply);
        }
        match handled {
            Ok(Ok(handled)) => return handled,
            Ok(Err(fail)) => reply.fail(fail.0),
            Err(_) => {
                // The panic hook has printed where and why.
                tracing::error!(?opcode, node = header.nodeid, "a request failed by a defect of the file system");
                reply.fail(Errno::IO);
            }
        }
        tracing::trace!(error = ?reply.error(), "failed");
        if is_silent(opcode) { Handled::Silent } else { Handled::Reply }
    }

    fn route(
        &self,
        header: InHeader,
        opcode: Option<Opcode>,
        args: Args<'_>,
        reply: &mut Reply,
        kernel: &dyn Kernel,
    ) -> Answer<Handled> {
        let opcode = opcode.ok_or(Errno::NOSYS)?;
        if opcode == Opcode::Destroy {
            // The answer lets umount(2) return: everything has to be on the device before.
            self.finish()?;
            return Ok(Handled::Reply);
        }
        if let Some(room) = Self::asks_to_write(&header, opcode, args) {
            let answer = serde_json::to_vec(&self.become_writable(&header)?).map_err(|_| Errno::IO)?;
            if answer.len() > room as usize {
                return Err(Errno::RANGE.into());
            }
            reply.put_bytes(&answer)?;
            return Ok(Handled::Reply);
        }
        if let Some(ioctl) = asks_to_shut_down(opcode, args) {
            self.shut_down(&header, &ioctl, kernel, reply)?;
            return Ok(Handled::Reply);
        }
        self.fetch(header, opcode, args, reply, kernel)?;
        let state = self.state.read();
        let State::Live(fs) = &*state else {
            return Err(Errno::NODEV.into());
        };
        if fs.is_shut_down() && !outlives(opcode) {
            return Err(Errno::IO.into());
        }
        match opcode {
            Opcode::Forget => self.forget(fs, header.nodeid, args)?,
            Opcode::BatchForget => self.batch_forget(fs, args)?,
            _ => {
                if !self.policy.admits(header.uid) && is_entrance(opcode) {
                    return Err(Errno::ACCESS.into());
                }
                Call { server: self, fs, header, kernel, reply }.answer(opcode, args)?;
            }
        }
        Ok(if is_silent(Some(opcode)) { Handled::Silent } else { Handled::Reply })
    }

    fn forget(&self, fs: &Fs, node: u64, mut args: Args<'_>) -> Answer {
        let ForgetIn { nlookup } = args.take()?;
        self.forget_one(fs, node, nlookup);
        Ok(())
    }

    fn batch_forget(&self, fs: &Fs, mut args: Args<'_>) -> Answer {
        let BatchForgetIn { count, .. } = args.take()?;
        for _ in 0..count {
            let ForgetOne { nodeid, nlookup } = args.take()?;
            self.forget_one(fs, nodeid, nlookup);
        }
        Ok(())
    }

    fn forget_one(&self, fs: &Fs, node: u64, count: u64) {
        // The root is known from the beginning and never forgotten for good.
        if node != ROOT_NODE
            && let Ok(ino) = u32::try_from(node)
        {
            self.let_go(fs, self.nodes.forget(ino, count).then_some(ino));
        }
    }
}

impl Call<'_> {
    fn answer(&mut self, opcode: Opcode, args: Args<'_>) -> Answer {
        match opcode {
            Opcode::Lookup => self.lookup(args),
            Opcode::Mknod => self.mknod(args),
            Opcode::Mkdir => self.mkdir(args),
            Opcode::Symlink => self.symlink(args),
            Opcode::Create => self.create(args),
            Opcode::Tmpfile => self.tmpfile(args),
            Opcode::Link => self.link(args),
            Opcode::Unlink => self.unlink(args),
            Opcode::Rmdir => self.rmdir(args),
            Opcode::Rename => self.rename(args),
            Opcode::Rename2 => self.rename2(args),
            Opcode::Readlink => self.readlink(),
            Opcode::Readdir => self.readdir(args),
            Opcode::Readdirplus => self.readdirplus(args),
            Opcode::Getattr => self.getattr(args),
            Opcode::Statx => self.statx(),
            Opcode::Setattr => self.setattr(args),
            Opcode::Statfs => self.statfs(),
            Opcode::Open => self.open(args),
            Opcode::Release => self.release(args),
            Opcode::Read => self.read(args),
            Opcode::Write => self.write(args),
            Opcode::Fsync | Opcode::Fsyncdir => self.fsync(args),
            Opcode::Syncfs => Ok(self.fs.sync()?),
            Opcode::Fallocate => self.fallocate(args),
            Opcode::Lseek => self.lseek(args),
            Opcode::CopyFileRange | Opcode::CopyFileRange64 => self.copy_file_range(opcode, args),
            Opcode::Setxattr => self.setxattr(args),
            Opcode::Getxattr => self.getxattr(args),
            Opcode::Listxattr => self.listxattr(args),
            Opcode::Removexattr => self.removexattr(args),
            Opcode::Ioctl => self.ioctl(args),
            Opcode::Flush => self.flush(args),
            // The kernel does without, and asks no more: directories have no open state, permissions are the kernel's,
            // and no request waits for something that an interrupt could end.
            Opcode::Opendir | Opcode::Releasedir | Opcode::Access | Opcode::Interrupt => Err(Errno::NOSYS.into()),
            Opcode::NotifyReply => Ok(()),
            Opcode::Init | Opcode::Destroy | Opcode::Forget | Opcode::BatchForget => Err(Errno::IO.into()),
        }
    }
}

/// Who waits until a request is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Waiter {
    /// Whoever caused it has gone on.
    #[default]
    Nobody,
    /// The kernel, which may have sent several at once: it writes back or reads ahead.
    Kernel,
    /// The program's thread of this number.
    Program(u32),
}

impl Waiter {
    /// Who waits for this request, given as its bytes.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        match Request::parse(bytes) {
            Ok(Request { opcode: Some(Opcode::Release | Opcode::Releasedir | Opcode::Interrupt), .. }) => Self::Nobody,
            Ok(request) if is_silent(request.opcode) => Self::Nobody,
            Ok(Request { opcode: Some(Opcode::Read), mut args, header }) => match args.take::<ReadIn>() {
                Ok(read) if read.size < LARGE && header.pid != 0 => Self::Program(header.pid),
                _ => Self::Kernel,
            },
            Ok(Request { header, .. }) if header.pid != 0 => Self::Program(header.pid),
            _ => Self::Kernel,
        }
    }
}

/// Whether this request, given as its bytes, moves much data on the kernel's own account: it reads ahead or writes
/// back, and the program may have something else to do meanwhile.
pub(crate) fn is_large_background(bytes: &[u8]) -> bool {
    match Request::parse(bytes) {
        Ok(Request { opcode: Some(Opcode::Read), mut args, .. }) => {
            args.take::<ReadIn>().is_ok_and(|read| read.size >= MUCH && read.flags & O_DIRECT == 0)
        }
        Ok(Request { opcode: Some(Opcode::Write), mut args, .. }) => {
            args.take::<WriteIn>().is_ok_and(|write| write.size >= MUCH && write.write_flags & WRITE_CACHE != 0)
        }
        _ => false,
    }
}

/// Whether the kernel takes no reply.
fn is_silent(opcode: Option<Opcode>) -> bool {
    matches!(opcode, Some(Opcode::Forget | Opcode::BatchForget | Opcode::NotifyReply))
}

/// Whether it is by this message that a program comes in, and not one that the kernel sends on its own account.
fn is_entrance(opcode: Opcode) -> bool {
    let of_open_files = matches!(
        opcode,
        Opcode::Read
            | Opcode::Write
            | Opcode::Fsync
            | Opcode::Flush
            | Opcode::Release
            | Opcode::Readdir
            | Opcode::Interrupt
            | Opcode::Syncfs
    );
    !of_open_files && !is_silent(Some(opcode))
}
