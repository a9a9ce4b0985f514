//! Flags that people bring from mkfs.f2fs: those that mean the same here, and those that are refused with the reason.

use steadyfs_core::mkfs::MkfsOptions;
use steadyfs_format::Features;

use crate::failure::Failure;

/// What mkfs.f2fs sets with `-g android`, besides `-f`: sectors, owner, features.
const ANDROID_SECTOR: u32 = 4096;
const ANDROID_FEATURES: Features = Features::from_bits(
    Features::ENCRYPT.bits()
        | Features::VERITY.bits()
        | Features::EXTRA_ATTR.bits()
        | Features::PROJECT_QUOTA.bits()
        | Features::QUOTA.bits(),
);

/// The flags.
#[derive(Debug, clap::Args)]
pub(super) struct Flags {
    /// Begin nodes at the end of the volume and files at its front (1), or all of them from the front on (0)
    #[arg(short = 'a', long = "heap", value_name = "0|1", value_parser = clap::value_parser!(u8).range(0..=1), default_value_t = 0)]
    heap: u8,
    /// Ignore case in names of directories that ask for it: utf8, or utf8:strict to refuse names that are not valid
    /// [default with -O casefold: utf8]
    #[arg(short = 'C', long = "encoding", value_name = "ENCODING[:strict]", value_parser = encoding)]
    encoding: Option<Encoding>,
    /// What else to print: 1 adds where each area is
    #[arg(short = 'd', long = "debug", value_name = "LEVEL", default_value_t = 0)]
    debug: u8,
    /// Defaults for a use: `android` is -f -d 1 -w 4096 -R 0:0 -O encrypt,verity,extra_attr,project_quota,quota
    #[arg(short = 'g', long = "defaults", value_name = "USE", value_parser = ["android"])]
    defaults: Option<String>,
    /// Begin with the same checkpoint version, whatever the uuid and the time are
    #[arg(short = 'r', long)]
    fixed_version: bool,
    #[arg(short = 'c', hide = true, value_name = "DEVICES")]
    devices: Option<String>,
    /// Size of a block: 4096, and no other
    #[arg(short = 'b', long = "block-size", value_name = "BYTES")]
    block_size: Option<String>,
    /// For a zoned device, such as a host-managed disk: a section is a zone, and metadata lies in conventional zones
    #[arg(short = 'm', long)]
    zoned: bool,
    #[arg(short = 'S', hide = true)]
    sparse: bool,
}

/// What `-C` chooses.
#[derive(Clone, Copy, Debug)]
struct Encoding {
    strict: bool,
}

fn encoding(text: &str) -> Result<Encoding, String> {
    let (name, flags) = text.split_once(':').unwrap_or((text, ""));
    if name != "utf8" {
        return Err("the only encoding is utf8".to_owned());
    }
    match flags {
        "" => Ok(Encoding { strict: false }),
        "strict" => Ok(Encoding { strict: true }),
        _ => Err("the only flag of an encoding is strict".to_owned()),
    }
}

impl Flags {
    /// Refuses what is not made here.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let refused = [
            (self.devices.is_some(), "-c", "a volume on several devices", "make one device of them with LVM or md"),
            (self.sparse, "-S", "an Android sparse image", "make a plain image, and convert it with img2simg"),
        ];
        if let Some(other) = self.block_size.as_deref().filter(|size| *size != "4096") {
            let what = format!("cannot make blocks of {other} bytes (-b)");
            return Err(Failure::usage(what, "a block of a volume has 4096", "give -b 4096, or leave it out"));
        }
        match refused.iter().find(|(given, ..)| *given) {
            Some((_, flag, what, hint)) => {
                Err(Failure::usage(format!("cannot make {what} ({flag})"), "SteadyFS does not write them", *hint))
            }
            None => Ok(()),
        }
    }

    /// Makes the choices, except those that the general flags have made.
    pub(super) fn apply(&self, options: &mut MkfsOptions) {
        options.heap = self.heap == 1;
        options.zoned = self.zoned;
        options.fixed_version = self.fixed_version;
        if let Some(encoding) = self.encoding {
            options.features = options.features | Features::CASEFOLD;
            options.strict_encoding = encoding.strict;
        }
        if self.android() {
            options.features = options.features | ANDROID_FEATURES;
        }
    }

    fn android(&self) -> bool {
        self.defaults.is_some()
    }

    /// Those given that only volumes with segments can follow.
    pub(super) fn segmented_only(&self) -> Option<&'static str> {
        match (self.heap, self.defaults.is_some(), self.zoned) {
            (1, ..) => Some("areas to choose an order of (-a)"),
            (_, true, _) => Some("defaults for Android (-g)"),
            (.., true) => Some("sections that are zones (-m)"),
            _ => None,
        }
    }

    /// Whether they mean `-f`.
    pub(super) fn force(&self) -> bool {
        self.android()
    }

    /// The owner of the root directory that they mean.
    pub(super) fn root_owner(&self) -> Option<(u32, u32)> {
        self.android().then_some((0, 0))
    }

    /// The sector size that they mean.
    pub(super) fn sector_size(&self) -> Option<u32> {
        self.android().then_some(ANDROID_SECTOR)
    }

    /// Whether to print where each area is.
    pub(super) fn shows_areas(&self) -> bool {
        self.debug > 0 || self.android()
    }
}
