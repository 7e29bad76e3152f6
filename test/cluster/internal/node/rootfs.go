// SPDX-License-Identifier: Apache-2.0

package node

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// Setup has the parts of a node.
type Setup struct {
	// ID is the cluster's ID.
	ID string
	// Files maps paths on the node to contents. The mode marks keys and scripts.
	Files map[string]File
	// Services start in no particular order and wait for each other.
	Services []Service
	// Programs are folders of this machine that the node sees, read only.
	Programs map[string]string
	// Plugins are the CNI plugins of a new node; more may be installed later.
	Plugins []string
}

// File is a file of a node.
type File struct {
	Content []byte
	Mode    fs.FileMode
}

// Service is a program that runs all the time. Its output goes to /var/log/NAME.log.
type Service struct {
	Name    string
	Command []string
}

// LogFile returns the log of a service, relative to the node's root.
func LogFile(service string) string { return filepath.Join("var", "log", service+".log") }

// serviceDir is the folder that runsvdir reads.
const serviceDir = "/etc/service"

// pluginDir is the conventional folder of network plugins.
const pluginDir = "/opt/cni/bin"

// masked are settings of the whole machine that kubelet requires. Files with the required values are mounted over the
// real ones, so that the machine keeps its own.
var masked = map[string]string{
	"vm/overcommit_memory":      "1",
	"vm/panic_on_oom":           "0",
	"kernel/panic":              "10",
	"kernel/panic_on_oops":      "1",
	"kernel/keys/root_maxkeys":  "1000000",
	"kernel/keys/root_maxbytes": "25000000",
}

const maskedDir = "/etc/ktsn-cluster/sysctl"

const startScript = "/etc/ktsn-cluster/start"

// WriteRoot writes the file system of a node, below root.
func WriteRoot(root, host string, setup Setup) error {
	for _, dir := range []string{"usr", "proc", "sys", "dev", "run", "tmp", "root", "etc/alternatives", "etc/cni/net.d",
		"var/log/pods", "var/lib/kubelet", "var/lib/containerd", "var/lib/cni", "var/tmp", serviceDir, pluginDir} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return fmt.Errorf("write root of %s: %w", host, err)
		}
	}
	for name, file := range baseFiles(host, setup.ID) {
		if _, given := setup.Files[name]; !given {
			setup.Files[name] = file
		}
	}
	for _, service := range setup.Services {
		setup.Files[service.file()] = File{Content: service.script(), Mode: 0o755}
	}
	for name, file := range setup.Files {
		if err := writeFile(filepath.Join(root, name), file); err != nil {
			return fmt.Errorf("write root of %s: %w", host, err)
		}
	}
	for at := range setup.Programs {
		if err := os.MkdirAll(filepath.Join(root, at), 0o755); err != nil {
			return fmt.Errorf("write root of %s: %w", host, err)
		}
	}
	if err := errors.Join(linkSystem(root), copyPlugins(root, setup.Plugins)); err != nil {
		return fmt.Errorf("write root of %s: %w", host, err)
	}
	return nil
}

func writeFile(path string, file File) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, file.Content, file.Mode); err != nil {
		return err
	}
	return os.Chmod(path, file.Mode)
}

func baseFiles(host, id string) map[string]File {
	text := func(content string) File { return File{Content: []byte(content), Mode: 0o644} }
	files := map[string]File{
		"/etc/hostname":      text(host + "\n"),
		"/etc/machine-id":    text(machineID(host, id) + "\n"),
		"/etc/hosts":         text("127.0.0.1 localhost\n::1 localhost\n"),
		"/etc/resolv.conf":   text(""),
		"/etc/nsswitch.conf": text("hosts: files dns\n"),
		"/etc/passwd":        text("root:x:0:0:root:/root:/bin/sh\n"),
		"/etc/group":         text("root:x:0:\n"),
		startScript:          {Content: []byte(start()), Mode: 0o755},
	}
	for name, value := range masked {
		files[filepath.Join(maskedDir, name)] = text(value + "\n")
	}
	return files
}

// machineID returns an ID that differs between nodes, also of different clusters.
func machineID(host, cluster string) string {
	sum := sha256.Sum256([]byte(cluster + "/" + host))
	return hex.EncodeToString(sum[:16])
}

// delegate prepares the node's own cgroup of version 2 so that kubelet can create cgroups for pods: only a cgroup
// without processes can have controllers below it. The node's own processes move into a child; runc later executes
// commands there too, because the node's first process is there.
const delegate = `if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
	mkdir -p /sys/fs/cgroup/node
	echo 0 >/sys/fs/cgroup/node/cgroup.procs
	echo 1 >/sys/fs/cgroup/node/cgroup.procs
	for controller in $(cat /sys/fs/cgroup/cgroup.controllers); do
		echo +$controller >/sys/fs/cgroup/cgroup.subtree_control
	done
fi
`

// bpffs is the mount that systemd makes on real nodes.
const bpffs = "mount -t bpf -o nosuid,nodev,noexec,mode=700 bpf /sys/fs/bpf\n"

// start returns the first script of a node, which becomes runsvdir.
func start() string {
	var script strings.Builder
	script.WriteString("#!/bin/sh\nset -e\nmount --make-rshared /\n" + bpffs + delegate)
	names := make([]string, 0, len(masked))
	for name := range masked {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Fprintf(&script, "mount --bind %s/%s /proc/sys/%s\n", maskedDir, name, name)
	}
	script.WriteString("exec runsvdir -P " + serviceDir + "\n")
	return script.String()
}

func (s Service) file() string { return serviceDir + "/" + s.Name + "/run" }

// Add adds a service to a node. If the node is on, the service starts within five seconds.
func (s Service) Add(root string) error {
	if err := writeFile(filepath.Join(root, s.file()), File{Content: s.script(), Mode: 0o755}); err != nil {
		return fmt.Errorf("add service %s: %w", s.Name, err)
	}
	return nil
}

func (s Service) script() []byte {
	var quoted []string
	for _, word := range s.Command {
		quoted = append(quoted, "'"+strings.ReplaceAll(word, "'", `'\''`)+"'")
	}
	return fmt.Appendf(nil, "#!/bin/sh\nexec >>/%s 2>&1\nexec %s\n", LogFile(s.Name), strings.Join(quoted, " \\\n\t"))
}

// linkSystem creates /bin, /lib and so on as links into /usr, as they are on this machine.
func linkSystem(root string) error {
	// As on Debian, so that both names of a path lead to the same file.
	if err := symlink("/run", filepath.Join(root, "var", "run")); err != nil {
		return err
	}
	for _, name := range systemLinks() {
		to, err := os.Readlink("/" + name)
		if err != nil {
			return fmt.Errorf("/%s is no link into /usr, as it is on Debian 12: %w", name, err)
		}
		if err := symlink(to, filepath.Join(root, name)); err != nil {
			return err
		}
	}
	return nil
}

func symlink(to, at string) error {
	if err := os.Symlink(to, at); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

func systemLinks() []string {
	var names []string
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		if _, err := os.Lstat("/" + name); err == nil {
			names = append(names, name)
		}
	}
	return names
}

func copyPlugins(root string, plugins []string) error {
	for _, plugin := range plugins {
		if err := copyProgram(plugin, filepath.Join(root, pluginDir, filepath.Base(plugin))); err != nil {
			return fmt.Errorf("install plugin: %w", err)
		}
	}
	return nil
}

func copyProgram(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}
