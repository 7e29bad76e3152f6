// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/kubernetsn/kubernetsn/internal/node/netdev"
)

// DefaultDir holds the maps of this machine's nodes, a folder for each (NodeDir).
const DefaultDir = bpffs + "/ktsn/receive"

const (
	bpffs = "/sys/fs/bpf"
	// mountSource is the source, in the list of mounts, of a BPF filesystem that Mount mounted.
	mountSource = "ktsn"
	// unfinished ends the name of a pin that is not in place yet.
	unfinished = "_new"
	// qdiscNotes begins the names of the folders that note, by interface index, where clsact is ours.
	qdiscNotes = "clsact_"
	// tcxPins begins the names of the programs that are attached by tcx, by interface index.
	tcxPins = "tcx_"
)

// ErrAbsent means that no program is loaded.
var ErrAbsent = errors.New("no program for receive rings is loaded; run `ktsn node receive attach UPLINK`")

// NodeDir returns the folder, inside dir, of the node whose network namespace the calling thread is in. Nodes of one machine
// can share a BPF filesystem, and must not remove each other's pods or maps. The name is the cookie of the namespace, which is
// unique until the machine restarts.
func NodeDir(dir string) (string, error) {
	netnsCookie, err := cookie()
	if err != nil {
		return "", fmt.Errorf("identify the network namespace of this node: %w", err)
	}
	return filepath.Join(dir, strconv.FormatUint(netnsCookie, 10)), nil
}

// Mount mounts a BPF filesystem at /sys/fs/bpf, as an init system does, if there is none. It reports whether it mounted one.
func Mount() (bool, error) {
	if isBPF(bpffs) {
		return false, nil
	}
	if err := unix.Mount(mountSource, bpffs, "bpf", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700"); err != nil {
		return false, fmt.Errorf("mount the BPF filesystem at %s: %w", bpffs, netdev.Explain(err, "BPF filesystem"))
	}
	return true, nil
}

// makeFolder creates the folder for pins. It does not mount: a plugin may run in its own mount namespace, where other
// processes would not find the pins.
func makeFolder(dir string) error {
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("%s: give an absolute path in a BPF filesystem, such as %s", dir, DefaultDir)
	}
	existing := dir
	for !exists(existing) {
		existing = filepath.Dir(existing)
	}
	if !isBPF(existing) {
		return fmt.Errorf("%s is in no BPF filesystem; mount one by `mount -t bpf bpf %s`, as systemd does", dir, bpffs)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the folder for pinned maps: %w", err)
	}
	return nil
}

func inDefault(dir string) bool { return strings.HasPrefix(filepath.Clean(dir)+"/", bpffs+"/") }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func isBPF(path string) bool {
	var at unix.Statfs_t
	return unix.Statfs(path, &at) == nil && at.Type == unix.BPF_FS_MAGIC
}

// makeAndLock creates a node's folder and locks it. It retries because another node may remove the parent folders meanwhile.
func makeAndLock(dir string) (unlock func(), err error) {
	for range 100 {
		if err = makeFolder(dir); err == nil {
			unlock, err = lock(dir)
		}
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return unlock, err
		}
	}
	return nil, err
}

// lock serialises processes that attach or detach, also of other nodes. The kernel releases it when the process ends. It fails
// with fs.ErrNotExist if the folder of all nodes was removed or recreated meanwhile.
func lock(dir string) (unlock func(), err error) {
	// Not the node's own folder, which Detach removes.
	file, err := os.Open(filepath.Dir(dir))
	if err != nil {
		return nil, fmt.Errorf("lock the folder for pinned maps: %w", err)
	}
	for {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err == nil {
		err = checkThere(file)
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("lock %s: %w", file.Name(), err)
	}
	return func() { file.Close() }, nil
}

// checkThere fails with fs.ErrNotExist if the path of an open folder leads to another folder or none.
func checkThere(file *os.File) error {
	locked, err := file.Stat()
	if err != nil {
		return err
	}
	named, err := os.Stat(file.Name())
	if err != nil {
		return err
	}
	if !os.SameFile(locked, named) {
		return fs.ErrNotExist
	}
	return nil
}

// pin pins a program in the folder. It replaces another release's atomically.
func pin(program *ebpf.Program, path string) error {
	fresh := path + unfinished
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("pin the program: %w", err)
	}
	// Pin at the final path would move an existing pin of this program.
	if err := program.Pin(fresh); err != nil {
		return fmt.Errorf("pin the program: %w", err)
	}
	if err := os.Rename(fresh, path); err != nil {
		return errors.Join(fmt.Errorf("pin the program: %w", err), os.Remove(fresh))
	}
	return nil
}

// unpin removes our pins from the folder.
func unpin(dir string) (all error) {
	for _, name := range append(slices.Clone(mapNames), kernelProgram, kernelProgram+unfinished) {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			all = errors.Join(all, fmt.Errorf("unpin: %w", err))
		}
	}
	return all
}

// removeNotes removes the notes and pins of interfaces that are gone, and the notes of those whose clsact other programs use.
func removeNotes(dir string) error {
	notes, err := filepath.Glob(filepath.Join(dir, qdiscNotes+"*"))
	pins, _ := filepath.Glob(filepath.Join(dir, tcxPins+"*"))
	for _, note := range append(notes, pins...) {
		err = errors.Join(err, os.Remove(note))
	}
	return err
}

// removeFolder unpins everything of this node and removes empty folders. Other files stay, with their folder.
func removeFolder(dir string) error {
	if err := errors.Join(unpin(dir), removeNotes(dir)); err != nil {
		return err
	}
	for _, folder := range []string{dir, filepath.Dir(dir), filepath.Dir(filepath.Dir(dir))} {
		if folder == bpffs || isMountPoint(folder) {
			break
		}
		if err := os.Remove(folder); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			break // not empty
		}
	}
	return unmount(dir)
}

// kernelEntries are the files that the kernel creates in a BPF filesystem.
var kernelEntries = []string{"maps.debug", "progs.debug"}

// unmount unmounts an empty BPF filesystem that Mount mounted.
func unmount(dir string) error {
	if !inDefault(dir) || sourceOf(bpffs) != mountSource {
		return nil
	}
	entries, err := os.ReadDir(bpffs)
	if err != nil {
		return fmt.Errorf("look for other pins: %w", err)
	}
	if slices.ContainsFunc(entries, func(entry fs.DirEntry) bool { return !slices.Contains(kernelEntries, entry.Name()) }) {
		return nil
	}
	// EBUSY, EPERM: it is in use, or this container lacks the privilege. An empty filesystem does no harm.
	if err := unix.Unmount(bpffs, 0); err != nil && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("unmount the BPF filesystem at %s: %w", bpffs, err)
	}
	return nil
}

func isMountPoint(path string) bool { return sourceOf(path) != "" }

// sourceOf returns the source of the filesystem that is mounted at a path, "" for none.
func sourceOf(path string) string {
	mounts, _ := mountinfo.GetMounts(func(mount *mountinfo.Info) (skip, stop bool) { return mount.Mountpoint != path, false })
	if len(mounts) == 0 {
		return ""
	}
	return mounts[len(mounts)-1].Source // the last mount covers earlier ones
}
