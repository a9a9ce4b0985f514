//! As a service manager runs a mount: what it is told, what is installed for it, and lines of `/etc/fstab`.

use std::fs;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::mount::Place;
use crate::run::{finish, in_a_mount_namespace, steadyfs};

/// The manager's end of the socket, and the next words that are sent to it.
struct Manager {
    socket: UnixDatagram,
}

impl Manager {
    fn at(path: &Path) -> Self {
        let socket = UnixDatagram::bind(path).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Manager { socket }
    }

    fn hears(&self) -> String {
        let mut words = [0; 4096];
        let length = self.socket.recv(&mut words).expect("words of the service");
        String::from_utf8_lossy(&words[..length]).into_owned()
    }

    fn hears_nothing(&self) {
        self.socket.set_nonblocking(true).unwrap();
        let heard = self.socket.recv(&mut [0; 64]);
        assert!(heard.as_ref().is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock), "{heard:?}");
        self.socket.set_nonblocking(false).unwrap();
    }
}

#[test]
fn a_service_manager_is_told_when_the_volume_can_be_used_and_when_that_ends() {
    let place = Place::formatted();
    let path = place.dir.path().join("notify");
    let manager = Manager::at(&path);
    let mut mount = Command::new("env");
    mount.args(["--default-signal", env!("CARGO_BIN_EXE_steadyfs"), "mount"]).args([place.image(), place.mnt()]);
    let mut child = mount.env("NOTIFY_SOCKET", &path).stdout(Stdio::null()).spawn().unwrap();
    let said = manager.hears();
    let (image, mnt) = (place.image(), place.mnt());
    assert_eq!(said, format!("READY=1\nSTATUS=serving {} on {}", image.display(), mnt.display()));
    fs::write(mnt.join("file"), "text").unwrap();
    manager.hears_nothing();
    // Somebody uses it: a service that is stopping, and goes on until it is free.
    let open = fs::File::open(mnt.join("file")).unwrap();
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(manager.hears(), "STOPPING=1\nSTATUS=unmounting");
    assert!(place.is_mounted());
    drop(open);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    manager.hears_nothing();
    place.judge();
}

/// It is no service, but something that a service has started.
#[test]
fn a_mount_in_the_background_does_not_speak_for_the_service_that_starts_it() {
    let place = Place::formatted();
    let path = place.dir.path().join("notify");
    let manager = Manager::at(&path);
    for args in [&["--background"][..], &["--helper"]] {
        let mut mount = steadyfs();
        let out = finish(mount.arg("mount").args(args).args([place.image(), place.mnt()]).env("NOTIFY_SOCKET", &path));
        assert_eq!(out.code, 0, "{out:?}");
        place.umount();
        manager.hears_nothing();
    }
}

/// A power cut leaves a volume with a journal for this program alone; a line of fstab that names it by its uuid finds
/// it all the same, and so does a check at boot. One that is of type f2fs is not checked by what does not know it.
#[test]
fn a_volume_with_a_journal_is_found_by_its_uuid_after_a_crash() {
    let place = Place::new();
    fs::create_dir(place.mnt()).unwrap();
    let script = r#"
set -e
"$STEADYFS" mkfs -q -l found "$DIR/a.img" 128M
loop=$(losetup -f --show "$DIR/a.img")
trap 'umount -l "$DIR/mnt" 2>/dev/null || true; losetup -d "$loop"' EXIT
mkdir "$DIR/sbin" "$DIR/usual"
mount --bind /usr/sbin "$DIR/usual"
cp -as "$DIR/usual/." "$DIR/sbin"
for name in mount fsck; do ln -s "$STEADYFS" "$DIR/sbin/$name.steadyfs"; done
mount --bind "$DIR/sbin" /usr/sbin
uuid=$(blkid -p -s UUID -o value "$loop")
mount -t steadyfs -o journal=percore "UUID=$uuid" "$DIR/mnt"
mkdir "$DIR/mnt/promised"
sync "$DIR/mnt"
kill -9 $(pgrep -f -- "$DIR/mnt")
umount -l "$DIR/mnt"
# A killed process has its files open for a moment more.
flock "$loop" flock "$DIR/a.img" true
blkid -p -s TYPE -s LABEL -o export "$loop" | grep -v DEVNAME
for kind in steadyfs f2fs; do
  echo "UUID=$uuid /none $kind nofail 0 2" >"$DIR/fstab"
  code=0; FSTAB_FILE="$DIR/fstab" fsck -A -T -a </dev/null >"$DIR/said" 2>&1 || code=$?
  echo "$kind $((code != 0))"
done
mount -t steadyfs LABEL=found "$DIR/mnt"
ls "$DIR/mnt"
umount "$DIR/mnt"
"#;
    let mut run = in_a_mount_namespace(script);
    run.env("DIR", place.dir.path()).env("STEADYFS", steadyfs().get_program());
    let out = finish(&mut run);
    assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{}", out.stdout);
    assert_eq!(out.stdout, "LABEL=found\nTYPE=f2fs\nsteadyfs 0\nf2fs 1\npromised\n");
    place.judge();
}

/// What `make install` installs, seen where it belongs by a mount namespace alone. After umount(8) the image is free at
/// once, whatever its type in the mount table.
#[test]
fn the_installed_unit_is_sound_and_lines_of_fstab_mount() {
    let place = Place::formatted();
    fs::create_dir(place.mnt()).unwrap();
    let (root, dir) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), place.dir.path());
    let script = r#"
set -e
make -s -C "$ROOT" install DESTDIR="$DIR/root" STEADYFS="$STEADYFS"
mount --bind "$DIR/root/usr/local" /usr/local
mount --bind "$DIR/root/usr/sbin" /usr/sbin
systemd-analyze --man=no verify steadyfs@volume.service
systemd-analyze security --offline=true --threshold=48 steadyfs@volume.service >"$DIR/said"
for options in memory=low noblkdev,uring=off; do
  echo "$DIR/a.img $DIR/mnt steadyfs nofail,_netdev,x-systemd.automount,x-systemd.requires-mounts-for=/,$options 0 0" >"$DIR/fstab"
  mount --bind "$DIR/fstab" /etc/fstab
  for round in 1 2 3 4 5; do
    mount "$DIR/mnt"
    dd if=/dev/zero of="$DIR/mnt/$options$round" bs=64k count=64 status=none
    umount "$DIR/mnt"
    fsck.steadyfs -f "$DIR/a.img" >"$DIR/said"
  done
  umount /etc/fstab
done
cd /usr/local/share
test -s man/man1/steadyfs-mount.1
for page in man/man8/*; do
  test -s "man/$(sed -n 's/^[.]so //p' "$page")"
done
[ $(ls man/man8 | wc -l) = $(ls /usr/sbin | wc -l) ]
test -s bash-completion/completions/steadyfs
test -s zsh/site-functions/_steadyfs
test -s fish/vendor_completions.d/steadyfs.fish
steadyfs ls "$DIR/a.img"
cd "$DIR"
make -s -C "$ROOT" uninstall DESTDIR="$DIR/root"
find "$DIR/root" ! -type d >&2
"#;
    let mut run = in_a_mount_namespace(script);
    // That of another make is not for this one.
    run.env_remove("MAKEFLAGS").env("ROOT", root).env("DIR", dir).env("STEADYFS", steadyfs().get_program());
    let out = finish(&mut run);
    assert_eq!((out.code, out.stderr.as_str()), (0, ""), "{}", out.stdout);
    assert_eq!(out.stdout.lines().count(), 10, "{}", out.stdout);
    place.judge();
}
