//! Experiments are read, changed and made smaller; what nobody knows is named.

use super::builtin::BUILTIN;
use super::*;
use steadyfs_rt::sim::SimConfig;

#[test]
fn all_that_are_built_in_make_sense() {
    assert_eq!(builtins().len(), BUILTIN.len());
    for (name, _) in BUILTIN {
        assert_eq!(builtin(name).unwrap().name, *name);
    }
    let e = builtin("nonsense").unwrap_err().to_string();
    assert!(e.ends_with("'nonsense'"), "{e}");
    let e = builtin("scalelfs-fig2").unwrap_err().to_string();
    assert!(e.contains("is it scalelfs-fig2a"), "{e}");
}

#[test]
fn an_unknown_key_is_named_beside_those_that_are_known() {
    let (_, text) = BUILTIN.iter().find(|(name, _)| *name == "scalelfs-fig2a").unwrap();
    for (from, to, parts) in [
        ("cores =", "coers =", ["`coers`", "`cores`"]),
        ("preset =", "presett =", ["`presett`", "`preset`"]),
        ("numjobs =", "jobs =", ["`jobs`", "`numjobs`"]),
        ("title =", "titel =", ["`titel`", "`title`"]),
    ] {
        assert!(text.contains(from), "{from}");
        let e = Experiment::parse("file.toml", &text.replacen(from, to, 1)).unwrap_err();
        assert!(e.is_usage() && parts.iter().all(|part| e.to_string().contains(part)), "{e}");
    }
}

#[test]
fn settings_change_exactly_their_key() {
    let original = builtin("smoke").unwrap();
    let mut changed = original.clone();
    changed.set("machine.cores=7").unwrap();
    changed.set("workload.rw=randrw").unwrap();
    changed.set("volume.cache=3M").unwrap();
    changed.set("machine.costs.page_copy=1").unwrap();
    assert_eq!((changed.machine.cores, changed.volume.cache), (7, Some(Size::of(3 << 20))));
    assert_eq!(changed.costs().unwrap().of(Cost::PageCopy), 1);
    assert_ne!(changed, original);
    for (setting, parts) in [
        ("machine.coers=7", ["`coers`", "`cores`"]),
        ("machin.cores=7", ["'machin'", "workload"]),
        ("workload.rw=sideways", ["sideways", "randwrite"]),
        ("volume.mount=frobnicate", ["frobnicate", "volume.mount"]),
        ("machine.costs.page_coppy=1", ["page_coppy", "page_copy"]),
        ("device.preset=floppy", ["floppy", "memory"]),
        ("device.map=round", ["round", "interval-artifact"]),
        ("device.map=interval", ["device.map", "memory"]),
        ("device.map=zones", ["device.map", "memory"]),
        ("device.map_period=3", ["map_period", "interval"]),
        ("workload.bs=1000", ["workload.bs", "4096"]),
        ("machine.cores", ["KEY=VALUE", "machine.cores"]),
    ] {
        let before = changed.clone();
        let e = changed.set(setting).unwrap_err();
        assert!(e.is_usage() && parts.iter().all(|part| e.to_string().contains(part)), "{setting}: {e}");
        assert_eq!(before, changed);
    }
}

#[test]
fn numbers_of_the_device_are_settings_and_what_is_unknown_is_refused() {
    let mut changed = builtin("scalelfs-fig2a").unwrap();
    let all = [
        "suspend=both",
        "suspend_program_ns=20000",
        "order=read-first",
        "duplex=half",
        "program_ns=1980000",
        "power_loss_protection=false",
        "over_provisioning=0.28",
    ];
    for setting in all {
        changed.set(&format!("device.parameters.{setting}")).unwrap();
    }
    let parameters = crate::device::parameters(&changed.device, 0).unwrap();
    for setting in all {
        let (name, value) = setting.split_once('=').unwrap();
        let found = parameters.numbers().find(|(number, _)| *number == name).unwrap().1;
        assert!(name == "over_provisioning" || found == value, "{name} is {found}");
    }
    for (setting, parts) in [
        ("device.parameters.progam_ns=1", ["'progam_ns'", "program_ns"]),
        ("device.parameters.suspend=often", ["often", "erase or both"]),
        ("device.parameters.order=lifo", ["lifo", "fifo or read-first"]),
        ("device.parameters.suspend_limit=0", ["device.parameters", "at least one read"]),
        ("device.parameters.channels=0", ["device.parameters", "geometry"]),
        ("device.parameters.link_bytes_s=3.4", ["link_bytes_s", "whole number"]),
    ] {
        let e = changed.set(setting).unwrap_err();
        assert!(e.is_usage() && parts.iter().all(|part| e.to_string().contains(part)), "{setting}: {e}");
    }
    let e = builtin("smoke").unwrap().set("device.parameters.suspend=both").unwrap_err().to_string();
    assert!(e.contains("memory has none"), "{e}");
}

/// The page of sources has a row for each number of each preset with the numbers that it has, for each price and for
/// each number of the scheduler. Prices and the scheduler's numbers are measured or published; none is an estimate.
#[test]
fn every_number_has_a_source() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lab/PARAMETERS.md");
    let page = std::fs::read_to_string(page).unwrap();
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = page.lines().filter(|line| line.starts_with("| `")).map(cells).collect();
    let check = |name: &str, numbers: &[String]| {
        let row = rows.iter().find(|row| row[1] == format!("`{name}`"));
        let row = row.unwrap_or_else(|| panic!("no row: | `{name}` | {} | (source) |", numbers.join(" | ")));
        assert_eq!(&row[2..2 + numbers.len()], numbers, "{name}");
        assert!(row[2 + numbers.len()].len() > 10, "{name} has no source");
    };
    let presets = steadyfs_flash::Preset::ALL.map(|preset| preset.parameters().numbers().collect::<Vec<_>>());
    for (at, (name, _)) in presets[0].iter().enumerate() {
        check(name, &presets.each_ref().map(|numbers| numbers[at].1.clone()));
    }
    let SimConfig { slice, wake, spin, handover, switch, costs, .. } = SimConfig::default();
    let scheduler = [("slice", slice), ("wake", wake), ("spin", spin), ("handover", handover), ("switch", switch)];
    let scheduler = scheduler.map(|(name, time)| (name.to_owned(), time.as_nanos()));
    let prices = Cost::ALL.into_iter().map(|cost| (cost_name(cost), u128::from(costs.of(cost))));
    for (name, ns) in prices.chain(scheduler) {
        check(&name, &[ns.to_string()]);
        let source = &rows.iter().find(|row| row[1] == format!("`{name}`")).unwrap()[3];
        assert!(source.starts_with("measured: ") || source.starts_with("published: "), "{name}: {source}");
    }
    assert_eq!(rows.len(), presets[0].len() + Cost::ALL.len() + 5, "a row for nothing, or two for one");
}

#[test]
fn a_scale_shrinks_sizes_and_nothing_else() {
    let full = builtin("scalelfs-fig2a").unwrap();
    let small = full.clone().scaled("1/16".parse().unwrap()).unwrap();
    assert_eq!(small.device.size.bytes(), full.device.size.bytes() / 16);
    assert_eq!(small.machine, full.machine);
    let share = |e: &Experiment| e.workload.file_bytes() as f64 / e.user_blocks().unwrap() as f64;
    assert!((share(&small) / share(&full) - 1.0).abs() < 0.01, "files fill the same share");
    assert_eq!(full.clone().scaled(Scale::FULL).unwrap(), full);
    for bad in ["", "0", "2", "1/0", "3/2", "x", "1/16/2"] {
        assert!(bad.parse::<Scale>().is_err(), "{bad}");
    }
}

#[test]
fn a_workload_on_the_device_shrinks_with_the_device() {
    let full = builtin("d2fs-fig1-devgc").unwrap();
    let small = full.clone().scaled("1/64".parse().unwrap()).unwrap();
    let share = |e: &Experiment| e.workload.file_bytes() as f64 / e.device.size.bytes() as f64;
    assert!((share(&small) / share(&full) - 1.0).abs() < 1e-3, "{} of {}", share(&small), share(&full));
    for (setting, part) in [
        ("workload.rw=randread", "say write or randwrite"),
        ("workload.size=600G", "on a device of"),
        ("workload.iodepth=0", "workload.iodepth"),
        ("workload.bs=5000", "workload.bs"),
    ] {
        let e = full.clone().set(setting).unwrap_err();
        assert!(e.is_usage() && e.to_string().contains(part), "{setting}: {e}");
    }
}

#[test]
fn a_map_has_as_many_nodes_and_passes_at_every_scale() {
    let mut full = builtin("d2fs-fig1-devgc").unwrap();
    full.set("device.map=interval-artifact").unwrap();
    let small = full.clone().scaled("1/64".parse().unwrap()).unwrap();
    assert_eq!((small.device.map_node_pages, small.device.map_period), (Some(1 << 14), Some(1.0 / 64.0)));
    full.set("device.map=interval").unwrap();
    full.set("device.map_period=12").unwrap();
    let small = full.scaled("1/64".parse().unwrap()).unwrap();
    assert_eq!((small.device.map_node_pages, small.device.map_period), (Some(1 << 12), Some(12.0 / 64.0)));
}

#[test]
fn files_of_every_kind_of_workload_keep_their_share_of_the_volume() {
    for name in ["scalelfs-fig10-fileserver", "scalelfs-fig10-varmail", "scalelfs-fig10-oltp", "scalelfs-fig11-a"] {
        let full = builtin(name).unwrap();
        let share = |e: &Experiment| e.workload.file_bytes() as f64 / e.user_blocks().unwrap() as f64;
        let small = full.clone().scaled("1/16".parse().unwrap()).unwrap();
        assert!((share(&small) / share(&full) - 1.0).abs() < 0.02, "{name}: {} and {}", share(&small), share(&full));
    }
}

#[test]
fn sizes() {
    for (text, bytes) in
        [("4096", 4096), ("4K", 4096), ("583M", 583 << 20), ("30GiB", 30 << 30), ("2500MB", 2_500_000_000)]
    {
        assert_eq!(text.parse(), Ok(Size::of(bytes)), "{text}");
    }
    for text in ["", "K", "4X", "4KBs", "-1", "99999999T"] {
        assert!(text.parse::<Size>().is_err(), "{text}");
    }
}

#[test]
fn systems_are_the_experiment_with_settings_of_their_own() {
    let fig9 = builtin("scalelfs-fig9").unwrap();
    let names = ["f2fs-lfs", "scalelfs"];
    assert!(names.iter().all(|name| fig9.system_names().contains(&(*name).to_owned())));
    let mounts = names.map(|name| fig9.with_system(name).unwrap().volume.mount);
    assert_eq!(
        mounts,
        [
            "mode=lfs,gc=f2fs-lfs,writeback=linux,discard",
            "mode=lfs,gc=scalelfs,gc.collectors=32,writeback=linux,discard"
        ]
    );
    let mut one = fig9.clone();
    one.keep_systems(&["scalelfs".to_owned()]).unwrap();
    assert_eq!(one.system_names(), ["scalelfs"]);
    let its_own = |claim: &&Claim| claim.system.as_deref() == Some("scalelfs") && claim.over.is_none();
    let kept = fig9.claims.iter().filter(its_own).count();
    assert!(kept > 0 && kept < fig9.claims.len());
    assert_eq!((one.claims.len(), one.claims.iter().filter(its_own).count()), (kept, kept));
    one.scaled("1/64".parse().unwrap()).unwrap();
    let e = fig9.clone().keep_systems(&["zfs".to_owned()]).unwrap_err();
    assert!(e.is_usage() && e.to_string().contains("zfs") && e.to_string().contains("f2fs-lfs"), "{e}");
    let text = BUILTIN.iter().find(|(name, _)| *name == "scalelfs-fig9").unwrap().1;
    for (from, to, part) in [
        ("name = \"f2fs-lfs\"", "name = \"scalelfs\"", "two"),
        ("over = \"scalelfs\"", "over = \"scale\"", "'scale'"),
        ("gc=f2fs-lfs", "gc=fastest", "fastest"),
    ] {
        let e = Experiment::parse("file.toml", &text.replacen(from, to, 1)).unwrap_err();
        assert!(e.to_string().contains(part), "{e}");
    }
}

#[test]
fn a_sweep_runs_each_system_with_each_value() {
    let mut text = String::from(include_str!("../../experiments/smoke.toml"));
    text = text.split("[[claim]]").next().unwrap().to_owned();
    text += "[sweep]\nname = \"cores\"\nkeys = [\"machine.cores\", \"workload.numjobs\"]\nvalues = [1, 4]\nshow = [\"mb_s\"]\n";
    let nameless = Experiment::parse("file.toml", &text).unwrap();
    assert_eq!(nameless.system_names(), ["@1", "@4"]);
    text += "[[system]]\nname = \"a\"\n[[system]]\nname = \"b\"\nset = [\"machine.cores=9\", \"interval=0.5\"]\n";
    let mut experiment = Experiment::parse("file.toml", &text).unwrap();
    assert_eq!(experiment.system_names(), ["a@1", "a@4", "b@1", "b@4"]);
    let one = experiment.with_system("b@4").unwrap();
    assert_eq!((one.machine.cores, one.interval, one.sweep), (4, 0.5, None));
    let parts = text.replacen("\"machine.cores\", \"workload.numjobs\"", "\"interval\"", 1).replacen(
        "[1, 4]",
        "[1, 50, 400]",
        1,
    );
    let parts = Experiment::parse("file.toml", &parts.replacen("show", "divide_by = 100\nshow", 1)).unwrap();
    let interval = |name: &str| parts.of_system(name, Scale::FULL).unwrap().interval;
    assert_eq!(["a@1", "a@50", "a@400"].map(interval), [0.01, 0.5, 4.0]);
    experiment.keep_systems(&["b".into()]).unwrap();
    assert_eq!(experiment.system_names(), ["b@1", "b@4"]);
    for (from, to, part) in [
        ("values = [1, 4]", "values = [4, 1]", "sweep.values"),
        ("values = [1, 4]", "values = []", "which values"),
        ("values = [1, 4]", "divide_by = 0\nvalues = [1, 4]", "divide_by"),
        ("\"machine.cores\", ", "\"machine.coers\", ", "`coers`"),
        ("name = \"a\"", "name = \"a@1\"", "'@'"),
        ("values = [1, 4]", "values = [0, 4]", "machine.cores"),
    ] {
        let e = Experiment::parse("file.toml", &text.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(e.contains(part), "{e}");
    }
}

#[test]
fn what_a_system_says_of_an_infinite_volume_becomes_smaller_with_the_scale() {
    let full = builtin("iplfs-fio-30").unwrap();
    let at = |scale: &str| full.of_system("iplfs", scale.parse().unwrap()).unwrap();
    let (whole, small) = (at("1"), at("1/64"));
    assert_eq!((whole.volume.kind, whole.volume.leap), (VolumeKind::Iplfs, None));
    assert_eq!(small.volume.capacity, Some(Size::of(30700 * (1 << 20) / 64 / (1 << 20) * (1 << 20))));
    assert_eq!((small.volume.leap, small.device.map_period), (Some(Size::of(16 << 20)), Some(30.0 / 64.0)));
    // Addresses are as many whatever the size: eight lengths of a log of 2^45 blocks.
    assert_eq!((whole.addresses(), small.addresses()), (1 << 48, 1 << 48));
    let f2fs = full.of_system("f2fs-lfs", "1/64".parse().unwrap()).unwrap();
    assert_eq!((f2fs.addresses(), f2fs.volume.leap), (f2fs.device.size.bytes() / 4096, None));
    // The files fit with their nodes, 509 addresses to a block.
    let users = whole.user_blocks().unwrap() * 4096;
    assert!(users > whole.workload.file_bytes() + (56 << 20), "{users}");
    // Without a capacity there is room for a NAT that has an entry for each block.
    let mut own = whole.clone();
    own.volume.capacity = None;
    let areas = own.device.size.bytes() / 4096 - own.mkfs_options().unwrap().infinite.unwrap().capacity;
    assert!(areas > 2 * (30 << 18) / 315, "{areas}");
    // Windows are amounts, too.
    let small = builtin("iplfs-amplification").unwrap().scaled("1/64".parse().unwrap()).unwrap();
    let window = small.windows.iter().find(|window| window.name == "w320").unwrap();
    assert_eq!((window.from, window.to), (Size::of(5 << 30), Size::of(455 << 24)));
}
