// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// DefaultDir is where the nodes of this machine have their maps, each in a folder of its own (OfNode).
const DefaultDir = bpffs + "/ktsn/receive"

const (
	bpffs = "/sys/fs/bpf"
	// mountSource is what the list of mounts has for a BPF filesystem that this package mounted.
	mountSource = "ktsn"
	// unfinished ends the name of a pin that is not in place yet.
	unfinished = "_new"
	// qdiscNotes begins the names of the folders that tell at which interfaces, by index, clsact is ours.
	qdiscNotes = "clsact_"
)

// ErrAbsent tells that no program was loaded.
var ErrAbsent = errors.New("no program for receive rings is loaded; run `ktsn node receive attach UPLINK`")

// OfNode is the folder, in that of all nodes, of the node whose network namespace the thread is in. Nodes of one machine may share a
// BPF filesystem, and none may forget the pods of another, or unpin its maps. The name is the cookie of the namespace, which no
// other gets as long as the machine runs.
func OfNode(dir string) (string, error) {
	own, err := cookie()
	if err != nil {
		return "", fmt.Errorf("tell the network namespace of this node from others: %w", err)
	}
	return filepath.Join(dir, strconv.FormatUint(own, 10)), nil
}

// Mount mounts a BPF filesystem at /sys/fs/bpf, where the folder lies, if there is none, as an init system does. It tells whether
// it did.
func Mount() (bool, error) {
	if isBPF(bpffs) {
		return false, nil
	}
	if err := unix.Mount(mountSource, bpffs, "bpf", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=0700"); err != nil {
		return false, fmt.Errorf("mount the BPF filesystem at %s: %w", bpffs, explain(err, "BPF filesystem"))
	}
	return true, nil
}

// makeFolder makes the folder for pins. It mounts nothing: a plugin may run in a mount namespace of its own, where nobody else
// would find what is pinned.
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

// makeAndLock makes the folder of a node, and locks it. The folders around it may go meanwhile, with the last of another node.
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

// lock has programs that load or remove take turns, those of other nodes as well; the kernel releases it when this one ends. It
// fails with fs.ErrNotExist when the folder of all nodes has gone, or is another by now.
func lock(dir string) (unlock func(), err error) {
	// The node's folder itself goes when the last is removed.
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

// checkThere tells whether an open folder is still the one of that name.
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

// pin puts a program into the folder, in one step also where there is another release's.
func pin(program *ebpf.Program, path string) error {
	fresh := path + unfinished
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("pin the program: %w", err)
	}
	// Not Pin, which would move what is pinned already.
	if err := program.Pin(fresh); err != nil {
		return fmt.Errorf("pin the program: %w", err)
	}
	if err := os.Rename(fresh, path); err != nil {
		return errors.Join(fmt.Errorf("pin the program: %w", err), os.Remove(fresh))
	}
	return nil
}

// unpin takes our pins out of the folder.
func unpin(dir string) (all error) {
	for _, name := range append(slices.Clone(mapNames), kernelProgram, kernelProgram+unfinished) {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			all = errors.Join(all, fmt.Errorf("unpin: %w", err))
		}
	}
	return all
}

// removeNotes removes those of interfaces that have gone, or whose clsact others use.
func removeNotes(dir string) error {
	notes, err := filepath.Glob(filepath.Join(dir, qdiscNotes+"*"))
	for _, note := range notes {
		err = errors.Join(err, os.Remove(note))
	}
	return err
}

// removeFolder unpins everything of this node. What others put beside it stays, with the folder.
func removeFolder(dir string) error {
	if err := errors.Join(unpin(dir), removeNotes(dir)); err != nil {
		return err
	}
	for _, one := range []string{dir, filepath.Dir(dir), filepath.Dir(filepath.Dir(dir))} {
		if one == bpffs || isMountPoint(one) {
			break
		}
		if err := os.Remove(one); err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			break // not empty
		}
	}
	return unmount(dir)
}

// kernelsOwn is what the kernel itself puts into a BPF filesystem.
var kernelsOwn = []string{"maps.debug", "progs.debug"}

// unmount takes away the BPF filesystem that Mount mounted, when nothing is in it any more.
func unmount(dir string) error {
	if !inDefault(dir) || sourceOf(bpffs) != mountSource {
		return nil
	}
	entries, err := os.ReadDir(bpffs)
	if err != nil {
		return fmt.Errorf("look for what else is pinned: %w", err)
	}
	if slices.ContainsFunc(entries, func(entry fs.DirEntry) bool { return !slices.Contains(kernelsOwn, entry.Name()) }) {
		return nil
	}
	// Somebody uses it, or this is a container without that privilege: an empty one harms nobody.
	if err := unix.Unmount(bpffs, 0); err != nil && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("unmount the BPF filesystem at %s: %w", bpffs, err)
	}
	return nil
}

func isMountPoint(path string) bool { return sourceOf(path) != "" }

// sourceOf is what is mounted at a path, "" for nothing.
func sourceOf(path string) string {
	file, err := os.Open("/proc/thread-self/mounts")
	if err != nil {
		return ""
	}
	defer file.Close()
	source := ""
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > 1 && fields[1] == path {
			source = fields[0] // the last one covers those before it
		}
	}
	return source
}
