//! docs/FORMAT.md says what the structures and constants here say. Each structure's own tests call [`assert_offsets`].

/// The page.
fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/FORMAT.md");
    std::fs::read_to_string(path).expect("the page is there")
}

/// The rows of the tables of a section, heads included, as trimmed cells.
fn rows(section: &str) -> Vec<Vec<String>> {
    let page = page();
    let opens = |line: &&str| {
        line.trim_start_matches('#').trim_start().split(' ').next().map(|word| word.trim_end_matches('.'))
            == Some(section)
            && line.starts_with('#')
    };
    let lines = page.lines().skip_while(|line| !opens(line)).skip(1).take_while(|line| !line.starts_with('#'));
    let tables = lines.filter(|line| line.starts_with('|') && !line.starts_with("|---"));
    tables.map(|line| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()).collect()
}

/// Asserts that the table of a section has exactly these fields: name, offset, bytes.
#[track_caller]
pub(crate) fn assert_offsets(section: &str, fields: &[(&str, usize, usize)]) {
    let rows: Vec<_> = rows(section).into_iter().filter(|row| row[0].parse::<usize>().is_ok()).collect();
    let told: Vec<_> =
        rows.iter().map(|row| (row[2].as_str(), row[0].parse().unwrap(), row[1].parse().unwrap())).collect();
    assert_eq!(told, fields, "section {section}");
}

/// Name on the page, offset and bytes of each field of a structure.
macro_rules! offsets {
    ($prefix:literal, $structure:ident: $($field:ident)*) => {{
        let value = <$structure as zerocopy::FromZeros>::new_zeroed();
        [$((concat!($prefix, stringify!($field)), std::mem::offset_of!($structure, $field), size_of_val(&value.$field))),*]
    }};
}
pub(crate) use offsets;

#[test]
fn constants() {
    macro_rules! numbers {
        ($($module:ident::$name:ident)*) => {
            [$((concat!("`", stringify!($module), "::", stringify!($name), "`"), crate::$module::$name as u64)),*]
        };
    }
    let ours = numbers! {
        block::BLOCK_SIZE block::BLOCKS_PER_SEG nat::ENTRIES_PER_BLOCK sit::ENTRIES_PER_BLOCK sit::VALID_MAP_BYTES
        summary::SUMMARY_BYTES journal::JOURNAL_BYTES journal::MAX_NAT_JOURNAL journal::MAX_SIT_JOURNAL
        orphan::ORPHANS_PER_BLOCK node::NODE_PAYLOAD node::SLOTS_PER_NODE inode::ADDR_WORDS inode::ADDR_OFFSET
        inode::FULL_EXTRA_ISIZE inode::DEFAULT_XATTR_WORDS inode::MAX_XATTR_WORDS dir::BLOCK_SLOTS dir::MAX_DEPTH
        compress::CLUSTER_HEADER superblock::SUPERBLOCK_OFFSET superblock::SUPERBLOCK_SIZE superblock::MAX_EXTENSIONS
        superblock::MAX_DEVICES checkpoint::HEADER_BYTES quota::GRACE quota::TREE_BLOCK
    };
    let rows = rows("20");
    let told: Vec<(&str, u64)> =
        rows[1..].iter().map(|row| (row[1].as_str(), row[0].parse().expect("a number"))).collect();
    assert_eq!(told, ours);
}

/// The rows of a section that begin with a bit: the bit and the name.
fn bits(section: &str) -> Vec<(String, u32)> {
    let bit = |row: &[String]| Some((row[1].clone(), u32::from_str_radix(row[0].strip_prefix("0x")?, 16).ok()?));
    rows(section).iter().filter_map(|row| bit(row)).collect()
}

#[test]
fn flags_and_features() {
    let named = |name: &str, bits: u32| (name.to_owned(), bits);
    let flags: Vec<_> = crate::CpFlags::ALL.iter().map(|(name, flag)| named(name, flag.bits())).collect();
    assert_eq!(bits("3.2"), flags);
    let features: Vec<_> = crate::Features::ALL.iter().map(|(name, feature)| named(name, feature.bits())).collect();
    assert_eq!(bits("16"), features);
}

#[test]
fn hashes_of_names() {
    let rows = rows("8.2");
    assert_eq!(rows.len(), 7, "a head and six names");
    for row in &rows[1..] {
        let hash = u32::from_str_radix(row[1].trim_start_matches("0x"), 16).expect("a hash");
        assert_eq!(crate::dir::name_hash(row[0].trim_matches('`').as_bytes()), hash, "{}", row[0]);
    }
}
