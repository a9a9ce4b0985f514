//! The locks of the core and their order, written once.
//!
//! A thread takes locks in rising rank. Classes marked `multi` may be held several times at once; the order among them
//! is said beside the class. `rt` checks all this in debug builds, and counts waits under these names in every build.
//!
//! | rank | lock | protects |
//! |---|---|---|
//! | 20 | `rename_lock` | the shape of the directory tree while a directory changes its parent |
//! | 30 | `i_rwsem` | one inode's contents and size (directories before others, else by rising inode number) |
//! | 31 | `i_gc_rwsem` | a file against collectors, with `gc.protect=file`: first the one for writes, then the one for reads |
//! | 31 | `gc_page_range` | pages of a file against collectors, with `gc.protect=page`, in the same order (`ranges`; a name for its waits, the rank is not checked) |
//! | 33 | `gc_mutex` | one round of collection at a time, where writers collect |
//! | 34 | `gc_checkpoint_mutex` | one collector at a time makes a checkpoint |
//! | 35 | `checkpoint_mutex` | one checkpoint at a time |
//! | 36 | `gc_gate` | who waits for collectors, and which of them work |
//! | 40 | `cp_rwsem` | shared by whoever changes the volume, exclusive while a checkpoint freezes it |
//! | 45 | `journal_push_mutex` | the order of batches of the metadata journal, and of nodes behind them |
//! | 46 | `journal_context_lock` | shared by whoever notes an operation in the journal, exclusive while a batch takes what was noted |
//! | 50 | `node_lock` | one node block (inode before indirect before direct: from the root of the tree to its leaves) |
//! | 60 | `curseg_mutex` | one log: current segment, next block, summary |
//! | 61 | `gc_stream_mutex` | a collector's write stream, or one of several logs for users' data |
//! | 62 | `nid_list_lock` | free node ids |
//! | 63 | `nid_at_hand_lock` | free node ids of one core |
//! | 64 | `nat_lock` | one NAT block in memory |
//! | 65 | `nid_held_lock` | node ids that were freed since the last checkpoint |
//! | 66 | `gc_victims_mutex` | the victims that one collector has in mind |
//! | 66 | `gc_area_lock` | segments that a device writes by itself, against blocks that come, go, and their release |
//! | 67 | `sentry_lock` | which blocks are valid, where a volume has a lock for that |
//! | 68 | `seglist_lock` | the choice of a victim, where one chooses at a time, and the lists of candidates then |
//! | 69 | `dead_blocks_lock`, `adopted_lock` | of a volume with infinite logs: which blocks are dead, which recovery has adopted |
//! | 70 | `rewrite_lock` | who of several writes a block again that the device has refused |
//! | 72 and up | leaves | in-flight writes, page maps, tables, lists: nothing is taken under them |

use steadyfs_rt::LockClass;

/// One collection round at a time.
pub(crate) static GC: LockClass = LockClass::new("gc_mutex", 33);
/// Writers that wait for collectors, and collectors that wait for work.
pub(crate) static GC_GATE: LockClass = LockClass::new("gc_gate", 36);
/// A checkpoint that a collector makes, so that the others go on meanwhile.
pub(crate) static GC_CHECKPOINT: LockClass = LockClass::new("gc_checkpoint_mutex", 34);
/// Renames of directories across directories.
pub(crate) static RENAME: LockClass = LockClass::new("rename_lock", 20);
/// An inode's contents and size; several by the rule in the table above.
pub(crate) static INODE: LockClass = LockClass::new("i_rwsem", 30).multi();
/// A file against collectors; the one for writes before the one for reads. Collectors only try, after `cp_rwsem` or
/// before it.
pub(crate) static FILE_GC: LockClass = LockClass::new("i_gc_rwsem", 31).multi();
/// Ranges of a file's pages against collectors: the name of waits for them.
pub(crate) static PAGE_GC: LockClass = LockClass::new("gc_page_range", 31);
/// One checkpoint at a time.
pub(crate) static CHECKPOINT: LockClass = LockClass::new("checkpoint_mutex", 35);
/// The checkpoint lock: shared by changers.
pub(crate) static CP: LockClass = LockClass::new("cp_rwsem", 40);
/// The order of the journal's batches.
pub(crate) static JOURNAL_PUSH: LockClass = LockClass::new("journal_push_mutex", 45);
/// What operations have noted in the journal, against the batch that takes it.
pub(crate) static JOURNAL_CONTEXT: LockClass = LockClass::new("journal_context_lock", 46);
/// A node block; several from the root of a file's node tree towards its leaves.
pub(crate) static NODE: LockClass = LockClass::new("node_lock", 50).multi();
/// A log's cursor.
pub(crate) static CURSEG: LockClass = LockClass::new("curseg_mutex", 60);
/// A collector's write stream, or one of several logs for users' data.
pub(crate) static STREAM: LockClass = LockClass::new("gc_stream_mutex", 61);
/// Free node ids.
pub(crate) static NID_LIST: LockClass = LockClass::new("nid_list_lock", 62);
/// Node ids that were freed since the last checkpoint.
pub(crate) static NID_HELD: LockClass = LockClass::new("nid_held_lock", 65);
/// Free node ids of one core.
pub(crate) static NID_AT_HAND: LockClass = LockClass::new("nid_at_hand_lock", 63);
/// One NAT block in memory.
pub(crate) static NAT: LockClass = LockClass::new("nat_lock", 64);
/// The victims that a collector has in mind.
pub(crate) static VICTIMS: LockClass = LockClass::new("gc_victims_mutex", 66);
/// Which blocks are valid (F2FS' own lock; a volume with `gc.meta=loose` takes none).
pub(crate) static SENTRY: LockClass = LockClass::new("sentry_lock", 67);
/// The choice of a victim, one at a time.
pub(crate) static SEGLIST: LockClass = LockClass::new("seglist_lock", 68);
/// Dead blocks of a volume with infinite logs.
pub(crate) static DEAD_BLOCKS: LockClass = LockClass::new("dead_blocks_lock", 69);
/// What recovery adopts on a volume with infinite logs.
pub(crate) static ADOPTED: LockClass = LockClass::new("adopted_lock", 69);
/// Blocks that the device refused, when they are written again.
pub(crate) static REWRITE: LockClass = LockClass::new("rewrite_lock", 70);
/// Shared flushes.
pub(crate) static FLUSH: LockClass = LockClass::new("flush_lock", 73);
/// Segments that a device writes by itself.
pub(crate) static GC_AREA: LockClass = LockClass::new("gc_area_lock", 66);
/// Records of a device that moves blocks.
pub(crate) static RECORDS: LockClass = LockClass::new("records_lock", 85);
/// Writes in flight.
pub(crate) static INFLIGHT: LockClass = LockClass::new("inflight_lock", 74);
/// Blocks that could not be written.
pub(crate) static FAILED_WRITES: LockClass = LockClass::new("failed_writes_lock", 75);
/// The table of cached nodes.
pub(crate) static NODE_TABLE: LockClass = LockClass::new("node_table_lock", 76);
/// Dirty nodes, per inode.
pub(crate) static DIRTY_NODES: LockClass = LockClass::new("dirty_nodes_lock", 77);
/// The table of cached inodes.
pub(crate) static INODE_TABLE: LockClass = LockClass::new("inode_table_lock", 78);
/// Summaries of a directory's pages.
pub(crate) static NAMES: LockClass = LockClass::new("dir_names_lock", 79);
/// A file's cached pages.
pub(crate) static PAGES: LockClass = LockClass::new("pages_lock", 80);
/// A list of what the journal is to make durable. XFS has a spin lock there.
pub(crate) static JOURNAL_LIST: LockClass = LockClass::new("journal_list_lock", 82).spinning();
/// Names that recovery was promised room for.
pub(crate) static JOURNAL_NAMES: LockClass = LockClass::new("journal_names_lock", 83);
/// Names that inodes and directories got and lost since the last freeze.
pub(crate) static SINCE: LockClass = LockClass::new("names_since_lock", 84);
/// Inodes without a name.
pub(crate) static ORPHANS: LockClass = LockClass::new("orphan_list_lock", 84);
/// Room of one core for inodes without a name.
pub(crate) static ORPHAN_ROOM: LockClass = LockClass::new("orphan_room_lock", 84);
/// Blocks and nodes that no core has at hand.
pub(crate) static SPACE_ROOM: LockClass = LockClass::new("space_room_lock", 89);
/// Inodes that are to be deleted.
pub(crate) static REAP: LockClass = LockClass::new("reap_list_lock", 84);
/// Lists of inodes: dirty directories, dirty files, page owners.
pub(crate) static LISTS: LockClass = LockClass::new("inode_list_lock", 84);
/// Latched errors, statistics and other small state.
pub(crate) static STATE: LockClass = LockClass::new("state_lock", 90);
