//! `mount --metrics`, over an address and over a socket, read with a strict parser of the exposition format and held
//! against known work.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::inspect::fails;
use crate::mount::{Place, ends_well};
use crate::run::{finish, steadyfs};

/// Samples by name, with their label as it stands in the text.
type Samples = BTreeMap<String, f64>;

/// Reads an exposition and refuses what the format does not allow, or what this project promises beyond it.
fn parse(text: &str) -> Samples {
    assert!(text.ends_with('\n'), "the last line must end");
    let (mut samples, mut seen) = (Samples::new(), Vec::new());
    let mut family: Option<(String, String)> = None;
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, what) = help.split_once(' ').expect("a name and words");
            assert!(!what.is_empty() && !what.contains('\\'), "{line}");
            let kind = lines.next().and_then(|l| l.strip_prefix(&format!("# TYPE {name} "))).expect("TYPE after HELP");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{kind}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
            assert!(
                name.starts_with("steadyfs_")
                    && name.bytes().all(|b| b.is_ascii_lowercase() || b"_0123456789".contains(&b))
            );
            assert!(!seen.contains(&name.to_owned()), "{name} comes twice");
            seen.push(name.to_owned());
            assert!(lines.peek().is_some_and(|l| !l.starts_with('#')), "{name} has no sample");
            family = Some((name.to_owned(), kind.to_owned()));
            continue;
        }
        let (name, kind) = family.as_ref().expect("HELP before samples");
        let (series, number) = line.rsplit_once(' ').expect("a number");
        let rest = series.strip_prefix(name.as_str()).unwrap_or_else(|| panic!("{series} is not of {name}"));
        let ends: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
        let rest = ends.iter().find_map(|end| rest.strip_prefix(end)).unwrap_or_else(|| panic!("{line}"));
        if !rest.is_empty() {
            let labels = rest.strip_prefix('{').and_then(|l| l.strip_suffix("\"}")).expect("a label");
            for label in labels.split("\",") {
                let (key, value) = label.split_once("=\"").expect("a value");
                assert!(key.bytes().all(|b| b.is_ascii_lowercase()) && !value.contains(['"', '\\', '\n']), "{line}");
            }
        }
        let number: f64 = number.parse().unwrap_or_else(|_| panic!("{line}"));
        assert!(number.is_finite() && number >= 0.0 || kind == "gauge", "{line}");
        assert!(samples.insert(series.to_owned(), number).is_none(), "{series} comes twice");
    }
    samples
}

/// Each histogram grows with its limits, up to its count, and all requests have ended but the one or two that are on
/// their way.
fn distributions_add_up(samples: &Samples) {
    let name = "steadyfs_request_seconds";
    let counts = samples.iter().filter_map(|(series, count)| {
        let operation = series.strip_prefix(&format!("{name}_count{{operation=\""))?.strip_suffix("\"}")?;
        Some((operation, *count))
    });
    let counts: Vec<(&str, f64)> = counts.collect();
    assert!(counts.len() > 5, "{counts:?}");
    for (operation, count) in counts {
        let buckets = samples.iter().filter_map(|(series, number)| {
            let limit =
                series.strip_prefix(&format!("{name}_bucket{{operation=\"{operation}\",le=\""))?.strip_suffix("\"}")?;
            Some((limit.parse::<f64>().expect("a limit"), *number))
        });
        let mut buckets: Vec<(f64, f64)> = buckets.collect();
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        assert_eq!((buckets.len(), buckets[0].0, buckets[18].0, buckets[19]), (20, 1e-5, 10.0, (f64::INFINITY, count)));
        assert!(buckets.is_sorted_by(|a, b| a.1 <= b.1), "{operation}: {buckets:?}");
        let sum = samples[&format!("{name}_sum{{operation=\"{operation}\"}}")];
        let longest = samples[&format!("steadyfs_request_longest_seconds{{operation=\"{operation}\"}}")];
        assert!(sum >= longest && sum <= longest * count + 1e-3, "{operation}: {sum} {longest} {count}");
        let came = samples[&format!("steadyfs_requests_total{{operation=\"{operation}\"}}")];
        assert!(count <= came && came <= count + 8.0, "{operation}: {came} came, {count} ended");
    }
}

/// Sends bytes and gives back all that is answered.
fn talk(stream: &mut (impl Read + Write), request: &[u8]) -> String {
    stream.write_all(request).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

pub(crate) fn scrape(stream: &mut (impl Read + Write)) -> Samples {
    let answer = talk(stream, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("text/plain; version=0.0.4"), "{head}");
    assert!(head.contains(&format!("Content-Length: {}", body.len())), "{head}");
    parse(body)
}

#[test]
fn the_counters_count_known_work() {
    let place = Place::new();
    let socket = place.dir.path().join("metrics");
    let child = place.serve(&["--create", "512M", "--metrics", socket.to_str().unwrap()]);
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let metrics = || scrape(&mut UnixStream::connect(&socket).unwrap());
    let before = metrics();
    assert_eq!(before["steadyfs_app_written_bytes_total"], 0.0);
    assert!(!before.contains_key("steadyfs_write_amplification_ratio"), "nothing was written yet");
    let mut file = File::create(place.mnt().join("file")).unwrap();
    for i in 0..64 {
        file.write_all(&vec![i; 1 << 20]).unwrap();
    }
    file.sync_all().unwrap();
    let after = metrics();
    let of = |name: &str| after[name];
    let mib = |n: u64| (n << 20) as f64;
    assert_eq!(of("steadyfs_app_written_bytes_total"), mib(64));
    let data = of("steadyfs_device_written_bytes_total{kind=\"data\"}");
    assert!(data >= mib(64) && data < mib(66), "{data}");
    assert_eq!(of("steadyfs_fsyncs_total{by=\"chain\"}"), before["steadyfs_fsyncs_total{by=\"chain\"}"] + 1.0);
    let waf = of("steadyfs_write_amplification_ratio");
    assert!((1.0..1.1).contains(&waf), "{waf}");
    let used = |samples: &Samples| samples["steadyfs_size_bytes"] - samples["steadyfs_free_bytes"];
    assert!(used(&after) - used(&before) >= mib(64));
    assert_eq!(of("steadyfs_valid_bytes"), used(&after));
    let states = ["free", "prefree", "dirty", "used"].map(|s| of(&format!("steadyfs_segments{{state=\"{s}\"}}")));
    assert_eq!(states.iter().sum::<f64>(), of("steadyfs_sections"), "sections of one segment");
    // The 32 full segments of the file, less those at its ends.
    assert!(of("steadyfs_sections_by_validity{validity=\"1\"}") >= 30.0);
    distributions_add_up(&after);
    let written = |samples: &Samples| samples.get("steadyfs_request_seconds_count{operation=\"write\"}").copied();
    assert_eq!(written(&before), None);
    // A request has ended a moment after its reply.
    let (came, start) = (of("steadyfs_requests_total{operation=\"write\"}"), Instant::now());
    while written(&metrics()) != Some(came) {
        assert!(start.elapsed() < Duration::from_secs(10), "{came} came, and not all of them have ended");
        std::thread::sleep(Duration::from_millis(2));
    }
    // Through the library's reads, not through the kernel's cache of what was just written.
    drop(file);
    let checkpoints =
        |samples: &Samples, cause: &str| samples[&format!("steadyfs_checkpoints_total{{cause=\"{cause}\"}}")];
    File::open(place.mnt()).unwrap().sync_all().unwrap();
    assert_eq!(checkpoints(&metrics(), "fsync"), checkpoints(&before, "fsync") + 1.0, "of a directory");
    ends_well(child, Some(Signal::INT));
    assert!(!socket.exists(), "the socket stays behind");
    place.judge();
}

/// The page for people, and what it asks for.
#[test]
fn a_page_shows_the_numbers_and_leads_nowhere() {
    let place = Place::new();
    let (child, line) = place.serve_and_tell(&["--create", "256M", "--metrics", "127.0.0.1:0"]);
    let address = line.strip_prefix("metrics at http://").and_then(|l| l.strip_suffix("/metrics")).expect(&line);
    let get = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
        let answer = talk(&mut TcpStream::connect(address).unwrap(), request.as_bytes());
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        (head.to_owned(), body.to_owned())
    };
    fs::write(place.mnt().join("secret-name"), "text").unwrap();
    let (head, page) = get("/");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"), "{head}");
    let policy = head.lines().find_map(|line| line.strip_prefix("Content-Security-Policy: ")).expect("a policy");
    assert!(policy.contains("default-src 'none'") && policy.contains("connect-src 'self'"), "{policy}");
    assert!(!["*", "unsafe", "http"].iter().any(|word| policy.contains(word)), "{policy}");
    assert!(page.contains("fetch(\"stats.json\"") && !["http:", "https:", "//"].iter().any(|w| page.contains(w)));
    let (head, json) = get("/stats.json");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"), "{head}");
    assert!(head.contains("X-Content-Type-Options: nosniff") && !head.contains("Access-Control"), "{head}");
    assert!(json.len() < 64 << 10, "{} bytes", json.len());
    let now: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&now["mounted"], &now["stats"]["app"]["written_bytes"]), (&true.into(), &4.into()));
    assert!(now["segments"]["valid"].as_array().unwrap().len() > 100 && now["stats"]["serving"]["slow"].is_array());
    for name in ["secret-name", place.mnt().to_str().unwrap()] {
        assert!(!json.contains(name) && !page.contains(name), "{name}");
    }
    assert!(get("/favicon.ico").0.starts_with("HTTP/1.1 404 "));
    ends_well(child, Some(Signal::TERM));
}

#[test]
fn bad_requests_harm_nobody() {
    let place = Place::new();
    let (child, line) = place.serve_and_tell(&["--create", "256M", "--metrics", "127.0.0.1:0"]);
    let address =
        line.strip_prefix("metrics at http://").and_then(|l| l.strip_suffix("/metrics")).expect(&line).to_owned();
    let connect = || TcpStream::connect(&address).unwrap();
    // They send part of a request and hang on until the end.
    let idle: Vec<_> = (0..20).map(|_| connect()).inspect(|mut s| s.write_all(b"GET /met").unwrap()).collect();
    for (request, status) in [
        (&b"GET /other HTTP/1.1\r\n\r\n"[..], "404"),
        (b"GET /metrics HTTP/1.1\r\nHost: evil.example:80\r\n\r\n", "421"),
        (b"GET / HTTP/1.1\r\nHost: evil.example:80\r\n\r\n", "421"),
        (b"GET /stats.json HTTP/1.1\r\nHost: evil.example:80\r\n\r\n", "421"),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "405"),
        (b"\x16\x03\x01\x02\n\n", "400"),
        (b"GET /metrics HTTP/9.9\r\n\r\n", "400"),
        (&[b'x'; 9000][..], "431"),
        (&[b'x'; 900_000][..], "431"),
    ] {
        let answer = talk(&mut connect(), request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        assert_eq!(answer.lines().filter(|l| l.is_empty()).count(), 1, "{answer}");
    }
    assert!(scrape(&mut connect()).len() > 80);
    drop(connect());
    let mut late = connect();
    late.write_all(&[b'x'; 9000]).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    assert!(talk(&mut late, &[b'x'; 90_000]).starts_with("HTTP/1.1 431 "), "what comes after the answer takes it back");
    // The idle ones are given up after a while.
    let mut first = &idle[0];
    first.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert_eq!(first.read(&mut [0; 100]).unwrap(), 0);
    fs::write(place.mnt().join("file"), "text").unwrap();
    assert_eq!(scrape(&mut connect())["steadyfs_app_written_bytes_total"], 4.0);
    drop(idle);
    ends_well(child, Some(Signal::TERM));
    assert!(TcpStream::connect(&address).is_err());
    place.judge();
}

/// Clients that send half a request, one byte after another or nothing, and those that take no answer, are in nobody's
/// way, however many.
#[test]
fn slow_clients_cost_a_scrape_nothing() {
    let place = Place::new();
    let (child, line) = place.serve_and_tell(&["--create", "256M", "--metrics", "127.0.0.1:0"]);
    let address = line.strip_prefix("metrics at http://").and_then(|l| l.strip_suffix("/metrics")).expect(&line);
    let connect = || TcpStream::connect(address).unwrap();
    let mut slow: Vec<TcpStream> = Vec::new();
    for (count, request) in [(64, &b"GET /met"[..]), (64, b"GET /metrics HTTP/1.1\r\n\r\n"), (300, b"")] {
        slow.extend((0..count).map(|_| connect()).inspect(|mut stream| stream.write_all(request).unwrap()));
        let start = Instant::now();
        assert!(scrape(&mut connect()).len() > 80);
        assert!(start.elapsed() < Duration::from_secs(1), "behind {}: {:?}", slow.len(), start.elapsed());
    }
    drop(slow);
    ends_well(child, Some(Signal::TERM));
}

#[test]
fn an_address_that_others_reach_is_warned_of() {
    let place = Place::new();
    let mount = |at: &str| {
        let out = place.mount(&["--background", "--create", "64M", "--metrics", at]);
        assert_eq!(out.code, 0, "{out:?}");
        place.umount();
        out.stderr
    };
    assert_eq!(mount("127.0.0.1:0"), "");
    let said = mount("0.0.0.0:0");
    assert!(said.contains("whoever reaches 0.0.0.0:0 may read the volume's numbers"), "{said}");
}

#[test]
fn in_the_background_and_from_the_list_of_options() {
    let place = Place::formatted();
    let socket = place.dir.path().join("m");
    for (flag, place_of_it) in [("--metrics", "./m".to_owned()), ("-o", format!("rw,metrics={}", socket.display()))] {
        // A socket that a killed mount left behind is in nobody's way.
        drop(UnixListener::bind(&socket).unwrap());
        let mut command = steadyfs();
        command.current_dir(place.dir.path()).args(["mount", "--background", flag, &place_of_it]);
        let out = finish(command.arg(place.image()).arg(place.mnt()));
        assert_eq!((out.code, out.stderr.as_str()), (0, ""));
        assert_eq!(out.stdout.replace("/./", "/"), format!("metrics at unix:{}\n", socket.display()));
        assert_eq!(scrape(&mut UnixStream::connect(&socket).unwrap())["steadyfs_app_written_bytes_total"], 0.0);
        place.umount();
        while socket.exists() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_place_that_cannot_be_had_is_said_before_anything_is_mounted() {
    let place = Place::formatted();
    let file = place.dir.path().join("file");
    fs::write(&file, "mine").unwrap();
    fails(&place.mount(&["--metrics", file.to_str().unwrap()]), 32, &["cannot serve metrics at", "that is free"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    let taken = place.dir.path().join("taken");
    let _listener = UnixListener::bind(&taken).unwrap();
    fails(&place.mount(&["--background", "--metrics", taken.to_str().unwrap()]), 32, &["in use"]);
    assert!(taken.exists() && !place.is_mounted());
    let out = place.mount(&["--metrics", "example.org"]);
    assert!(out.code == 1 && out.stderr.contains("127.0.0.1:PORT"), "{out:?}");
    fails(&place.mount(&["-o", "metrics=nonsense"]), 1, &["metrics=nonsense", "127.0.0.1:PORT"]);
}
