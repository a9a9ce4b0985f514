//! Where the fields of each structure lie: what a change may be aimed at. (Offset, width) in bytes.

/// A number inside a block: where it begins, and its width in bytes.
pub type Field = (usize, usize);

/// Scalar fields of the superblock, counted from the beginning of its block (format section 2).
pub const SUPERBLOCK: &[Field] = &{
    const fn at(offset: usize, width: usize) -> Field {
        (1024 + offset, width)
    }
    [
        at(0, 4),
        at(8, 4),
        at(12, 4),
        at(16, 4),
        at(20, 4),
        at(24, 4),
        at(28, 4),
        at(32, 4),
        at(36, 8),
        at(44, 4),
        at(48, 4),
        at(52, 4),
        at(56, 4),
        at(60, 4),
        at(64, 4),
        at(68, 4),
        at(72, 4),
        at(76, 4),
        at(80, 4),
        at(84, 4),
        at(88, 4),
        at(92, 4),
        at(96, 4),
        at(100, 4),
        at(104, 4),
        at(108, 8),
        at(1148, 4),
        at(1664, 4),
        at(2180, 4),
        at(2201, 1),
        at(2265, 4),
        at(2745, 4),
        at(2749, 4),
        at(2757, 1),
        at(3068, 4),
    ]
};

/// Fields of a checkpoint header (format section 3.1); the last are where bitmaps begin.
pub const HEADER: &[Field] = &[
    (0, 8),
    (8, 8),
    (16, 8),
    (24, 4),
    (28, 4),
    (32, 4),
    (36, 4),
    (40, 4),
    (44, 4),
    (48, 4),
    (68, 2),
    (70, 2),
    (72, 2),
    (84, 4),
    (88, 4),
    (92, 4),
    (116, 2),
    (118, 2),
    (120, 2),
    (132, 4),
    (132, 1),
    (136, 4),
    (140, 4),
    (144, 4),
    (148, 4),
    (152, 4),
    (156, 4),
    (160, 4),
    (164, 4),
    (168, 8),
    (176, 1),
    (177, 1),
    (178, 1),
    (179, 1),
    (180, 1),
    (181, 1),
    (192, 8),
    (256, 8),
];

/// A NAT entry (format section 4).
pub const NAT: &[Field] = &[(0, 1), (1, 4), (5, 4), (5, 4), (5, 4)];

/// A SIT entry (format section 5).
pub const SIT: &[Field] = &[(0, 2), (1, 1), (2, 1), (2, 8), (30, 8), (65, 1), (66, 8)];

/// An entry of a summary block (format section 6).
pub const SUMMARY: &[Field] = &[(0, 4), (0, 4), (4, 1), (5, 2)];

/// An inode (format sections 7.1 and 7.2), without its address words.
pub const INODE: &[Field] = &[
    (0, 2),
    (2, 1),
    (3, 1),
    (3, 1),
    (4, 4),
    (12, 4),
    (16, 8),
    (16, 8),
    (24, 8),
    (32, 8),
    (56, 4),
    (68, 4),
    (72, 4),
    (76, 4),
    (76, 4),
    (80, 4),
    (84, 4),
    (88, 4),
    (92, 1),
    (347, 1),
    (348, 4),
    (352, 4),
    (356, 4),
    (360, 2),
    (362, 2),
    (364, 4),
    (368, 4),
    (372, 8),
    (384, 8),
    (392, 1),
    (393, 1),
    (394, 2),
    (4052, 4),
    (4056, 4),
    (4060, 4),
    (4064, 4),
    (4068, 4),
];

/// The footer of a node (format section 7).
pub const FOOTER: &[Field] = &[(4072, 4), (4076, 4), (4080, 4), (4084, 8), (4092, 4)];

/// A record of a dentry block (format section 8.1), from its own beginning.
pub const DENTRY: &[Field] = &[(0, 4), (4, 4), (4, 4), (8, 2), (10, 1)];

/// An entry of an extended attribute, and the first bytes of the area (format section 9).
pub const XATTR: &[Field] = &[(0, 4), (24, 1), (25, 1), (26, 2), (28, 4), (40, 4)];
