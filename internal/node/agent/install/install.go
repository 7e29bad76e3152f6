// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// Node is the node's file system, as far as it is mounted.
type Node struct {
	// Root is the mount point, "" or "/" on the node itself. Recorded paths are relative to it.
	Root string
	// Mounts has the mount points of folders of the node that are not mounted below Root, by their paths on the node.
	Mounts map[string]string
	// List is the path of the list of installed files on the node.
	List string

	mu sync.Mutex
}

// DefaultList is the default of List. It survives a reboot, as do the files in it.
const DefaultList = "/var/lib/cni/tsn-cni/installed.json"

// File installs a file, unless it exists with the same content and mode.
func (n *Node) File(path string, content []byte, mode fs.FileMode) (changed bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.file(path, content, mode)
}

// ErrForeign is returned for a file that was not installed, or was changed after that.
var ErrForeign = errors.New("there is another file")

// Add is File for a folder of another program: it fails with fs.ErrNotExist if there is no such folder, and with ErrForeign instead of
// replacing another file.
func (n *Node) Add(path string, content []byte, mode fs.FileMode) (changed bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	folder, err := os.Lstat(filepath.Dir(n.at(path)))
	if err == nil && !folder.IsDir() {
		err = fs.ErrNotExist // a link may lead elsewhere on the node
	}
	if err != nil {
		return false, fmt.Errorf("install %s on the node: %w", path, err)
	}
	listed, err := n.read()
	if err != nil {
		return false, err
	}
	info, err := os.Lstat(n.at(path))
	if err == nil {
		existing, errRead := os.ReadFile(n.at(path))
		if sum := digest(existing); errRead != nil || !info.Mode().IsRegular() || sum != listed[path] && sum != digest(content) {
			return false, fmt.Errorf("install %s on the node: %w", path, ErrForeign)
		}
	}
	return n.file(path, content, mode)
}

// file is File with the lock held.
func (n *Node) file(path string, content []byte, mode fs.FileMode) (changed bool, err error) {
	listed, err := n.read()
	if err != nil {
		return false, err
	}
	existing, err := os.ReadFile(n.at(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("read %s on the node: %w", path, err)
	}
	wanted := digest(content)
	same := err == nil && digest(existing) == wanted && n.hasMode(path, mode)
	if same && listed[path] == wanted {
		return false, nil
	}
	// Record first: a listed file is only removed if it has the recorded content.
	if listed[path] != wanted {
		listed[path] = wanted
		if err := n.write(listed); err != nil {
			return false, err
		}
	}
	if same {
		return false, nil
	}
	if err := replace(n.at(path), content, mode); err != nil {
		return false, fmt.Errorf("install %s on the node: %w", path, err)
	}
	return true, nil
}

// Replace installs a file without a record, unless it exists with the same content.
func Replace(from, to string, mode fs.FileMode) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("read the file to install: %w", err)
	}
	existing, err := os.ReadFile(to)
	if err == nil && bytes.Equal(existing, content) {
		return nil
	}
	if err := replace(to, content, mode); err != nil {
		return fmt.Errorf("install %s: %w", to, err)
	}
	return nil
}

// Copy installs a file of this container.
func (n *Node) Copy(from, to string, mode fs.FileMode) (changed bool, err error) {
	content, err := os.ReadFile(from)
	if err != nil {
		return false, fmt.Errorf("read the file to install: %w", err)
	}
	return n.File(to, content, mode)
}

// Remove removes an installed file. A file that was changed since then stays.
func (n *Node) Remove(path string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	listed, err := n.read()
	if err != nil {
		return err
	}
	wanted, ours := listed[path]
	if !ours {
		return nil
	}
	existing, err := os.ReadFile(n.at(path))
	if err == nil && digest(existing) == wanted {
		err = os.Remove(n.at(path))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s from the node: %w", path, err)
	}
	delete(listed, path)
	return n.write(listed)
}

// Installed returns the paths of installed files.
func (n *Node) Installed() ([]string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	listed, err := n.read()
	return slices.Sorted(maps.Keys(listed)), err
}

func (n *Node) at(path string) string {
	if folder, mounted := n.Mounts[filepath.Dir(path)]; mounted {
		return filepath.Join(folder, filepath.Base(path))
	}
	return filepath.Join(n.Root, path)
}

func (n *Node) hasMode(path string, mode fs.FileMode) bool {
	info, err := os.Lstat(n.at(path))
	return err == nil && info.Mode() == mode
}

func (n *Node) read() (map[string]string, error) {
	listed := map[string]string{}
	text, err := os.ReadFile(n.at(n.List))
	if errors.Is(err, fs.ErrNotExist) {
		return listed, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &listed)
	}
	if err != nil {
		return nil, fmt.Errorf("read the list of installed files, %s: %w; remove that file to install everything again", n.List, err)
	}
	return listed, nil
}

func (n *Node) write(listed map[string]string) error {
	if len(listed) == 0 {
		if err := os.Remove(n.at(n.List)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("write the list of installed files: %w", err)
		}
		return nil
	}
	text, err := json.MarshalIndent(listed, "", "  ")
	if err == nil {
		err = replace(n.at(n.List), append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write the list of installed files: %w", err)
	}
	return nil
}

// replace writes a temporary file and moves it to the path.
func replace(path string, content []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	// A running plugin cannot be overwritten, and a reader must not see part of a file. Readers of configuration
	// folders ignore names that begin with a dot.
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	err := writeSynced(temporary, content, mode)
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		_ = os.Remove(temporary) // it may not exist
		return err
	}
	return nil
}

// writeSynced writes the content to disk before the file gets its name: otherwise a crash of the node could leave an
// empty file.
func writeSynced(path string, content []byte, mode fs.FileMode) error {
	_ = os.Remove(path) // from a killed agent
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Chmod(mode)
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
