//! A headless Chromium, spoken to in the DevTools protocol through two pipes: messages are JSON, each ends with a zero
//! byte.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A running browser with one tab.
pub(crate) struct Chromium {
    process: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    session: Option<String>,
    number: u64,
    /// What the tab complained of since it was last asked.
    complaints: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Chromium {
    /// Starts it. After two minutes it is ended, so that a browser that hangs fails the test.
    pub(crate) fn start() -> Self {
        let profile = tempfile::tempdir().unwrap();
        // DevTools wants its pipes as descriptors 3 and 4.
        let mut process = Command::new("sh")
            .args(["-c", "exec timeout -k 5 120 \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", "sh", "chromium"])
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe"])
            .args(["--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh starts");
        let (to, from) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let from = BufReader::new(from);
        let mut browser =
            Chromium { process, to, from, session: None, number: 0, complaints: Vec::new(), _profile: profile };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = browser.call("Target.attachToTarget", attach);
        browser.session = Some(session["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.call(domain, json!({}));
        }
        browser
    }

    fn send(&mut self, method: &str, params: &Value) -> u64 {
        self.number += 1;
        let mut message = json!({ "id": self.number, "method": method, "params": params });
        if let Some(session) = &self.session {
            message["sessionId"] = session.clone().into();
        }
        let sent = self.to.write_all(format!("{message}\0").as_bytes());
        sent.expect("chromium listens (is the Debian package chromium installed? see tools/apt-deps.sh)");
        self.number
    }

    fn receive(&mut self) -> Value {
        let mut message = Vec::new();
        self.from.read_until(0, &mut message).unwrap();
        assert!(
            message.pop() == Some(0),
            "chromium ended or did not start (is the Debian package chromium installed? see tools/apt-deps.sh)"
        );
        let message: Value = serde_json::from_slice(&message).unwrap();
        let params = &message["params"];
        match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => self.complaints.push(format!("throws {}", params["exceptionDetails"])),
            Some("Runtime.consoleAPICalled") if params["type"] == "error" => {
                self.complaints.push(format!("console {}", params["args"]));
            }
            Some("Log.entryAdded") if params["entry"]["level"] == "error" => {
                self.complaints.push(format!("log {}", params["entry"]));
            }
            _ => {}
        }
        message
    }

    /// Calls a method and waits for its result.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        let number = self.send(method, &params);
        loop {
            let message = self.receive();
            if message["id"] == number {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }

    /// Opens a file on a screen of this size; what it complained of while it loaded.
    pub(crate) fn open(&mut self, path: &std::path::Path, width: u32, height: u32, dark: bool) -> Vec<String> {
        let phone = width < 600;
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone }),
        );
        let scheme = json!([{ "name": "prefers-color-scheme", "value": if dark { "dark" } else { "light" } }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": scheme }));
        self.complaints.clear();
        self.call("Page.navigate", json!({ "url": format!("file://{}", path.display()) }));
        while self.receive()["method"] != "Page.loadEventFired" {}
        // Another round trip brings what came right behind.
        self.evaluate("1");
        std::mem::take(&mut self.complaints)
    }

    /// The value of an expression of JavaScript.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let result = self.call("Runtime.evaluate", json!({ "expression": expression, "returnByValue": true }));
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let session = self.session.take();
        if session.is_some() {
            // Without a session this is for the browser. It may be gone already.
            let _ = self.to.write_all(b"{\"id\":0,\"method\":\"Browser.close\"}\0");
        }
        let _ = self.process.wait();
    }
}
