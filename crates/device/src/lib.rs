//! Block devices: what a block device promises to the file system, and its implementations.
//!
//! - [`Device`], [`Request`], [`Op`]: the promise (see the head of `device`); [`PageBuf`]: a page on its way;
//! - [`FileDevice`]: a regular file or block device; [`MemDevice`]: memory; [`SparseImage`]: an Android sparse image,
//!   for reading; [`ChunkDevice`]: a directory of files, of any length;
//! - [`RecordingDevice`] and [`CrashImage`]: what was written, and what a crash may leave of it; [`FaultyDevice`]:
//!   errors on demand;
//! - [`HostModel`]: a host's directory in memory, and what a power cut of the host leaves of it, for tests;
//! - [`LoopDevice`] and [`Backing`]: loop devices, and what is behind them;
//! - [`OverlayDevice`]: changes in memory over a device that is only read;
//! - [`WriteOnceDevice`]: panics on a second write of a block, for tests;
//! - [`ZonedDevice`]: zones in memory, strict about how they are written, for tests;
//! - [`Migrations`]: devices that move pages by themselves (see the head of `migrate`); [`MigratingDevice`]: one in a
//!   directory of files; [`AdversaryDevice`]: the most inconvenient of them, for tests.
//!
//! Knows nothing of files or file systems. Errors are values; nothing here panics on what a device or an image
//! contains.

mod chunks;

mod crash;
mod device;
mod error;
mod faulty;
mod file;
mod host;
mod loop_device;
mod mem;
mod memory;
mod migrating;
mod once;
mod overlay;
mod page;
mod pool;
mod private;
mod record;
mod sandbox;
mod sparse;
mod zoned;

pub use chunks::ChunkDevice;
pub use crash::{CrashImage, PIECE_SIZE, PIECES, flush_ticks, image_at};
pub use device::{Device, DeviceInfo, Done, IoResult, Op, Request, StreamHint, Zone, ZoneGeometry, ZoneState};
pub use error::{IoError, OpKind, OpenError, errno};
pub use faulty::{Fault, FaultyDevice};
pub use file::{Direct, Engine, FileDevice, OpenOptions};
pub use host::HostModel;
pub use loop_device::{Backing, LoopDevice};
pub use mem::MemDevice;
pub use memory::share_arenas;
pub use migrating::files::MigratingDevice;
pub use migrating::{
    Adversary, AdversaryDevice, Broken, Ledger, MigrationGeometry, Migrations, Move, Sort, Step, UPCALL_RECORDS, Upcall,
};
pub use once::WriteOnceDevice;
pub use overlay::OverlayDevice;
pub use page::{PageBuf, is_zero};
pub use pool::{PageMemory, page_memory, retain as retain_page_memory, trim as trim_page_memory};
pub use private::{PRIVATE, create_file, keep_descriptors};
pub use record::{Record, RecordingDevice};
pub use sandbox::{dump_no_core, keep_few_capabilities, refuse_other_system_calls};
pub use sparse::{SparseImage, is_image_directory, locked_file, open_image};
pub use zoned::{ZoneCounts, ZonedDevice};

/// Size of a block and of a page, in bytes.
pub const BLOCK_SIZE: usize = 4096;
