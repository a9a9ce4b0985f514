//! Random operations on a few files against a plain model, with remounts, and fsck.f2fs at the end of each case.

use super::*;
use crate::{FallocMode, Whence};
use proptest::prelude::*;
use std::collections::BTreeMap;

const PAGE: u64 = 4096;
/// Files larger than this are not moved about as a whole.
const MOVABLE: u64 = 6 << 20;

/// What a file should hold: pages that are not zero throughout, and a size.
#[derive(Default)]
struct Model {
    size: u64,
    pages: BTreeMap<u64, Vec<u8>>,
}

impl Model {
    fn read(&self, off: u64, len: u64) -> Vec<u8> {
        let end = self.size.min(off + len);
        let mut out = vec![0; end.saturating_sub(off) as usize];
        for (page, bytes) in self.pages.range(off / PAGE..end.div_ceil(PAGE).max(off / PAGE)) {
            for (i, byte) in bytes.iter().enumerate() {
                let at = page * PAGE + i as u64;
                if (off..end).contains(&at) {
                    out[(at - off) as usize] = *byte;
                }
            }
        }
        out
    }

    fn write(&mut self, off: u64, data: &[u8]) {
        for (i, byte) in data.iter().enumerate() {
            let at = off + i as u64;
            self.pages.entry(at / PAGE).or_insert_with(|| vec![0; PAGE as usize])[(at % PAGE) as usize] = *byte;
        }
        if !data.is_empty() {
            self.size = self.size.max(off + data.len() as u64);
        }
    }

    fn zero(&mut self, from: u64, to: u64) {
        self.pages.retain(|page, _| page * PAGE < from || (page + 1) * PAGE > to);
        for (page, bytes) in self.pages.range_mut(from / PAGE..to.div_ceil(PAGE).max(from / PAGE)) {
            for (i, byte) in bytes.iter_mut().enumerate() {
                if (from..to).contains(&(page * PAGE + i as u64)) {
                    *byte = 0;
                }
            }
        }
    }

    fn truncate(&mut self, size: u64) {
        self.zero(size, u64::MAX - PAGE);
        self.size = size;
    }

    fn shift(&mut self, from: u64, by: i64) {
        let (below, above): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.pages).into_iter().partition(|(page, _)| *page < from);
        self.pages = below;
        self.pages.extend(above.into_iter().map(|(page, bytes)| ((page as i64 + by) as u64, bytes)));
    }
}

#[derive(Clone, Debug)]
enum Op {
    Write { off: u64, len: usize, direct: bool },
    Append { len: usize },
    Read { off: u64, len: u64, direct: bool },
    Truncate { size: u64 },
    Falloc { mode: u8, off: u64, len: u64 },
    Seek { off: u64 },
    Fsync,
    Checkpoint,
    Collect,
    Remount,
}

fn offset() -> impl Strategy<Value = u64> {
    let border = prop::sample::select(vec![
        3452u64,
        864 << 12,
        (864 + 1018) << 12,
        (864 + 2036) << 12,
        (864 + 2036 + (1018 * 1018)) << 12,
    ]);
    prop_oneof![
        4 => 0u64..15_000,
        3 => 0u64..4_000_000,
        2 => (0u64..40).prop_map(|page| page * PAGE),
        1 => (border, 0u64..20_000).prop_map(|(border, by)| (border + by).saturating_sub(10_000)),
        1 => 0u64..1 << 41,
    ]
}

fn length() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0u64..9000, 2 => (1u64..9).prop_map(|n| n * PAGE), 1 => 0u64..1_500_000]
}

fn op() -> BoxedStrategy<(usize, Op)> {
    let operation = prop_oneof![
        8 => (offset(), length(), prop::bool::weighted(0.3)).prop_map(|(off, len, direct)| {
            let (off, len) = if direct && len % 3 > 0 { (off & !4095, len & !4095) } else { (off, len) };
            Op::Write { off, len: len as usize, direct }
        }),
        2 => length().prop_map(|len| Op::Append { len: len as usize }),
        5 => (offset(), length(), any::<bool>()).prop_map(|(off, len, direct)| Op::Read { off, len, direct }),
        3 => offset().prop_map(|size| Op::Truncate { size }),
        6 => (0u8..7, offset(), length()).prop_map(|(mode, off, len)| Op::Falloc { mode, off, len: len.max(1) }),
        3 => offset().prop_map(|off| Op::Seek { off }),
        2 => Just(Op::Fsync),
        2 => Just(Op::Checkpoint),
        1 => Just(Op::Collect),
        1 => Just(Op::Remount),
    ];
    (0usize..3, operation).boxed()
}

struct World {
    device: Arc<MemDevice>,
    fs: Arc<Fs>,
    files: Vec<(InodeRef, Model)>,
}

const NAMES: [&str; 3] = ["first", "second", "never inline"];
/// 1 MiB of cache: files of a few MiB do not fit.
const OPTIONS: &str = "cache=1M";

impl World {
    fn new() -> Self {
        let device = fresh();
        let fs = mount(&device, OPTIONS);
        let bits = [inline::DATA | inline::XATTR, inline::DATA, inline::XATTR];
        let files =
            NAMES.iter().zip(bits).map(|(name, bits)| (create_with(&fs, name, bits), Model::default())).collect();
        World { device, fs, files }
    }

    fn remount(&mut self) {
        let models = std::mem::take(&mut self.files).into_iter().map(|(_, model)| model);
        self.fs.unmount().unwrap();
        self.fs = mount(&self.device, OPTIONS);
        self.files = NAMES.iter().zip(models).map(|(name, model)| (open(&self.fs, name), model)).collect();
    }

    fn apply(&mut self, n: usize, which: usize, op: &Op) -> Result<(), TestCaseError> {
        let fs = Arc::clone(&self.fs);
        let (file, model) = &mut self.files[which];
        match *op {
            Op::Write { off, len, direct } => {
                let data = pattern(n as u64, len);
                let wrote = if direct { fs.write_direct(file, off, &data) } else { fs.write(file, off, &data) };
                prop_assert_eq!(wrote.unwrap(), len);
                model.write(off, &data);
            }
            Op::Append { len } => {
                let data = pattern(n as u64, len);
                prop_assert_eq!(fs.append(file, &data).unwrap(), (model.size, len));
                model.write(model.size, &data);
            }
            Op::Read { off, len, direct } => compare(&fs, file, model, off, len, direct)?,
            Op::Truncate { size } => {
                fs.files.set_size(&file.inode, size).unwrap();
                model.truncate(size);
            }
            Op::Falloc { mode, off, len } => fallocate(&fs, file, model, mode, off, len)?,
            Op::Seek { off } => seek(&fs, file, model, off)?,
            Op::Fsync => fs.fsync(file, false).unwrap(),
            Op::Checkpoint => fs.durable.sync_checkpoint().unwrap(),
            Op::Collect => drop(fs.gc(2, crate::Urgency::Foreground).unwrap()),
            Op::Remount => {
                drop(fs);
                self.remount();
                return Ok(());
            }
        }
        prop_assert_eq!(size(file), model.size);
        Ok(())
    }

    fn compare_all(&self) -> Result<(), TestCaseError> {
        for (file, model) in &self.files {
            if model.size <= 2 * MOVABLE {
                compare(&self.fs, file, model, 0, model.size, false)?;
            } else {
                for page in model.pages.keys() {
                    compare(&self.fs, file, model, (page * PAGE).saturating_sub(PAGE), 3 * PAGE, false)?;
                }
            }
            seek(&self.fs, file, model, 0)?;
        }
        Ok(())
    }
}

fn compare(fs: &Fs, file: &InodeRef, model: &Model, off: u64, len: u64, direct: bool) -> Result<(), TestCaseError> {
    let expected = model.read(off, len);
    let mut back = vec![0xEE; len as usize];
    let n = if direct { fs.read_direct(file, off, &mut back) } else { fs.read(file, off, &mut back) }.unwrap();
    prop_assert_eq!(n, expected.len());
    let differs = (0..n).find(|i| back[*i] != expected[*i]);
    prop_assert_eq!(differs.map(|i| (off + i as u64, back[i], expected[i])), None);
    Ok(())
}

fn fallocate(fs: &Fs, file: &InodeRef, model: &mut Model, mode: u8, off: u64, len: u64) -> Result<(), TestCaseError> {
    let keep_size = mode % 2 == 1;
    let (mode, off, len) = match mode {
        0 | 1 => (FallocMode::Allocate { keep_size }, off, len),
        2 | 3 => (FallocMode::ZeroRange { keep_size }, off, len),
        4 => (FallocMode::PunchHole, off, len),
        5 => (FallocMode::CollapseRange, off & !4095, (len | 4095) + 1),
        _ => (FallocMode::InsertRange, off & !4095, (len | 4095) + 1),
    };
    let end = off + len;
    let moves = matches!(mode, FallocMode::CollapseRange | FallocMode::InsertRange);
    if moves && model.size > MOVABLE {
        return Ok(());
    }
    let done = fs.fallocate(file, mode, off, len);
    let refused = match mode {
        FallocMode::CollapseRange => end >= model.size,
        FallocMode::InsertRange => off >= model.size,
        _ => false,
    };
    if refused {
        prop_assert!(matches!(done, Err(crate::Error::Invalid)), "{:?}", done);
        return Ok(());
    }
    done.unwrap();
    match mode {
        FallocMode::Allocate { .. } => {}
        FallocMode::ZeroRange { .. } | FallocMode::PunchHole => model.zero(off, end),
        FallocMode::CollapseRange => {
            model.zero(off, end);
            model.shift(end / PAGE, -((len / PAGE) as i64));
            model.size -= len;
        }
        FallocMode::InsertRange => {
            model.shift(off / PAGE, (len / PAGE) as i64);
            model.size += len;
        }
    }
    if !moves && !keep_size && mode != FallocMode::PunchHole {
        model.size = model.size.max(end);
    }
    Ok(())
}

/// What is said to be a hole must be zero, and data and holes must follow one another to the end.
fn seek(fs: &Fs, file: &InodeRef, model: &Model, off: u64) -> Result<(), TestCaseError> {
    let mut at = off;
    for _ in 0..1000 {
        let data = match fs.seek(file, at, Whence::Data) {
            Ok(data) => data,
            Err(crate::Error::NoSuchOffset) => model.size.max(at),
            Err(e) => panic!("{e}"),
        };
        let hidden = model.pages.range(at / PAGE..data.div_ceil(PAGE).max(at / PAGE)).find(|(page, bytes)| {
            (0..PAGE).any(|i| (at..data).contains(&(*page * PAGE + i)) && bytes[i as usize] != 0)
        });
        prop_assert!(hidden.is_none(), "data at page {:?} lies in a hole", hidden.map(|h| h.0));
        if data >= model.size {
            return Ok(());
        }
        at = fs.seek(file, data, Whence::Hole).unwrap();
        prop_assert!(at > data && at <= model.size);
        if at == model.size {
            return Ok(());
        }
    }
    Ok(())
}

/// Cases per run: `PROPTEST_CASES`, or few enough for every build.
fn config() -> ProptestConfig {
    let cases = if std::env::var_os("PROPTEST_CASES").is_some() { ProptestConfig::default().cases } else { 48 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]
    #[test]
    fn files_agree_with_a_plain_model(ops in prop::collection::vec(op(), 1..50)) {
        let mut world = World::new();
        for (n, (which, op)) in ops.iter().enumerate() {
            world.apply(n + 1, *which, op)?;
        }
        world.compare_all()?;
        world.remount();
        world.compare_all()?;
        let World { device, fs, files } = world;
        drop(files);
        unmount_and_check(fs, &device);
    }
}
