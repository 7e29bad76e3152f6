// SPDX-License-Identifier: Apache-2.0

package guestmachine

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Main is the first process: it sets the machine up like a node, runs its command, and turns the machine off.
func Main() {
	if err := first(); err != nil {
		fmt.Fprintln(os.Stderr, "ktsn-test-first:", err)
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func first() error {
	text, err := os.ReadFile(orderFile)
	if err != nil {
		return err
	}
	var what order
	if err := json.Unmarshal(text, &what); err != nil {
		return fmt.Errorf("%s: %w", orderFile, err)
	}
	if err := MountSystem(); err != nil {
		return err
	}
	if err := LoadModules(modulesFile); err != nil {
		return err
	}
	if err := makeRoot(&what); err != nil {
		return err
	}
	if err := setUp(&what); err != nil {
		return err
	}
	return serve(&what)
}

// MountSystem mounts /proc, /sys and /dev.
func MountSystem() error {
	for _, system := range []struct{ kind, at string }{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}} {
		// The kernel may have mounted the last one.
		if err := mount(system.kind, system.at, system.kind, 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			return err
		}
	}
	return nil
}

// mount creates the folder as well.
func mount(source, at, kind string, flags uintptr, options string) error {
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(source, at, kind, flags, options); err != nil {
		return fmt.Errorf("mount %s at %s: %w", source, at, err)
	}
	return nil
}

// LoadModules loads the kernel modules that a file lists, each after its dependencies.
func LoadModules(path string) error {
	list, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read list of modules: %w", err)
	}
	for _, path := range strings.Fields(string(list)) {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(file.Fd()), "", 0)
		file.Close()
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("load module %s: %w", path, err)
		}
	}
	return nil
}

// newRoot becomes the root, because a container runtime cannot leave the initial file system.
const newRoot = "/new"

const shareOptions = "trans=virtio,version=9p2000.L,msize=512000,"

func makeRoot(what *order) error {
	if err := mount("tmpfs", newRoot, "tmpfs", 0, "mode=755,size=80%"); err != nil {
		return err
	}
	host := filepath.Join(newRoot, "host")
	if err := mount(hostTag, host, "9p", unix.MS_RDONLY, shareOptions+"cache=loose"); err != nil {
		return err
	}
	if err := mount(outTag, filepath.Join(newRoot, OutDir), "9p", 0, shareOptions+"cache=none"); err != nil {
		return err
	}
	for _, path := range append([]string{"/usr", "/etc/alternatives"}, what.Shown...) {
		if err := bindFromHost(host, path); err != nil {
			return err
		}
	}
	if err := linkSystem(host); err != nil {
		return err
	}
	for _, at := range []string{"/proc", "/sys", "/dev"} {
		if err := mount(at, filepath.Join(newRoot, at), "", unix.MS_MOVE, ""); err != nil {
			return err
		}
	}
	return changeRoot()
}

// bindFromHost makes a file or folder of the host visible at the same path below the new root.
func bindFromHost(host, path string) error {
	from, to := filepath.Join(host, path), filepath.Join(newRoot, path)
	info, err := os.Stat(from)
	if err != nil {
		return fmt.Errorf("show %s: %w", path, err)
	}
	if !info.IsDir() {
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, nil, 0o644); err != nil {
			return err
		}
		return unix.Mount(from, to, "", unix.MS_BIND, "")
	}
	return mount(from, to, "", unix.MS_BIND, "")
}

// linkSystem makes /bin, /lib and so on links into /usr, as on the host.
func linkSystem(host string) error {
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		to, err := os.Readlink(filepath.Join(host, name))
		if err != nil {
			return fmt.Errorf("/%s is no link into /usr, as it is on Debian 12: %w", name, err)
		}
		if err := os.Symlink(to, filepath.Join(newRoot, name)); err != nil {
			return err
		}
	}
	return os.MkdirAll(filepath.Join(newRoot, "var"), 0o755)
}

// changeRoot makes the new root the root.
func changeRoot() error {
	if err := unix.Chdir(newRoot); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return err
	}
	return unix.Chdir("/")
}

const modprobe = "/etc/modprobe"

// files are files that programs expect.
var files = map[string]string{
	"/etc/hostname":      "guest\n",
	"/etc/machine-id":    "0123456789abcdef0123456789abcdef\n",
	"/etc/hosts":         "127.0.0.1 localhost guest\n",
	"/etc/resolv.conf":   "",
	"/etc/nsswitch.conf": "hosts: files\n",
	"/etc/passwd":        "root:x:0:0:root:/root:/bin/sh\n",
	"/etc/group":         "root:x:0:\n",
}

// setUp does what system services have done before containers start.
func setUp(what *order) error {
	for _, dir := range []string{"/root", "/tmp", "/run/netns", "/run/lock", "/var/lib", "/var/log", "/dev/shm", "/dev/pts", "/opt/cni/bin"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := os.Symlink("/run", "/var/run"); err != nil {
		return err
	}
	for path, content := range files {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	// The kernel calls modprobe when programs need a module.
	script := fmt.Sprintf("#!/bin/sh\nexec /usr/sbin/modprobe -d %s \"$@\"\n", what.Modules)
	if err := os.WriteFile(modprobe, []byte(script), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile("/proc/sys/kernel/modprobe", []byte(modprobe), 0); err != nil {
		return err
	}
	for _, system := range []struct{ kind, at, options string }{
		{"cgroup2", "/sys/fs/cgroup", ""}, {"tmpfs", "/dev/shm", ""}, {"devpts", "/dev/pts", "ptmxmode=0666"}, {"bpf", "/sys/fs/bpf", ""},
	} {
		if err := mount(system.kind, system.at, system.kind, 0, system.options); err != nil {
			return err
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("share the mounts: %w", err)
	}
	if err := unix.Sethostname([]byte("guest")); err != nil {
		return err
	}
	return command(what.Modules, "ip", "link", "set", "lo", "up").Run()
}

func command(dir string, arguments ...string) *exec.Cmd {
	path := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	_ = os.Setenv("PATH", path) // no error for such a name
	created := exec.Command(arguments[0], arguments[1:]...)
	created.Dir, created.Env = dir, []string{"PATH=" + path, "HOME=/root"}
	return created
}

// serve runs the command and reaps all ended processes, as a first process must.
func serve(what *order) error {
	log, err := os.Create(filepath.Join(OutDir, LogFile))
	if err != nil {
		return err
	}
	defer log.Close()
	run := command(what.Dir, what.Command...)
	run.Env = append(append(run.Env, "MODPROBE_OPTIONS=-d "+what.Modules), what.Environment...)
	run.Stdout, run.Stderr = log, log
	if err := run.Start(); err != nil {
		return err
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for the command: %w", err)
		}
		if pid == run.Process.Pid {
			return os.WriteFile(filepath.Join(OutDir, statusFile), []byte(strconv.Itoa(exitStatus(status))), 0o644)
		}
	}
}

func exitStatus(status unix.WaitStatus) int {
	if status.Signaled() {
		return 128 + int(status.Signal())
	}
	return status.ExitStatus()
}
