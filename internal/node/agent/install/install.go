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

// Node is the node's file system, as far as it is visible.
type Node struct {
	// Root is where it is mounted; paths that are written down are relative to it. "" or "/" on the node itself.
	Root string
	// List is the path of the list of what was installed, on the node.
	List string

	mu sync.Mutex
}

// DefaultList is where the list stands. It outlives a reboot, as do the files in it.
const DefaultList = "/var/lib/cni/tsn-cni/installed.json"

// File puts a file onto the node, unless it is there with that content.
func (n *Node) File(path string, content []byte, mode fs.FileMode) (changed bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	listed, err := n.read()
	if err != nil {
		return false, err
	}
	have, err := os.ReadFile(n.at(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("look at %s on the node: %w", path, err)
	}
	wanted := digest(content)
	same := err == nil && digest(have) == wanted && n.hasMode(path, mode)
	if same && listed[path] == wanted {
		return false, nil
	}
	// Written down before it is done: a file too much in the list is not removed when it is another's.
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

// Replace puts a file in place that is not written down, unless it is there with that content.
func Replace(from, to string, mode fs.FileMode) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("read what to install: %w", err)
	}
	have, err := os.ReadFile(to)
	if err == nil && bytes.Equal(have, content) {
		return nil
	}
	if err := replace(to, content, mode); err != nil {
		return fmt.Errorf("install %s: %w", to, err)
	}
	return nil
}

// Copy is File with the content of a file of this container.
func (n *Node) Copy(from, to string, mode fs.FileMode) (changed bool, err error) {
	content, err := os.ReadFile(from)
	if err != nil {
		return false, fmt.Errorf("read what to install: %w", err)
	}
	return n.File(to, content, mode)
}

// Remove removes a file that was installed. One that somebody changed since then stays.
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
	have, err := os.ReadFile(n.at(path))
	if err == nil && digest(have) == wanted {
		err = os.Remove(n.at(path))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s from the node: %w", path, err)
	}
	delete(listed, path)
	return n.write(listed)
}

// Installed lists the paths of what was installed.
func (n *Node) Installed() ([]string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	listed, err := n.read()
	return slices.Sorted(maps.Keys(listed)), err
}

func (n *Node) at(path string) string { return filepath.Join(n.Root, path) }

func (n *Node) hasMode(path string, mode fs.FileMode) bool {
	about, err := os.Lstat(n.at(path))
	return err == nil && about.Mode() == mode
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
		return nil, fmt.Errorf("read what is installed on the node, %s: %w; remove that file, and what is there is installed anew", n.List, err)
	}
	return listed, nil
}

func (n *Node) write(listed map[string]string) error {
	if len(listed) == 0 {
		if err := os.Remove(n.at(n.List)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("write down what is installed on the node: %w", err)
		}
		return nil
	}
	text, err := json.MarshalIndent(listed, "", "  ")
	if err == nil {
		err = replace(n.at(n.List), append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write down what is installed on the node: %w", err)
	}
	return nil
}

// replace writes a file beside its place and moves it there.
func replace(path string, content []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	// A plugin that runs cannot be written to, and a reader must not see half: so it is another file. It begins with
	// a dot, which readers of folders of configurations leave out.
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	err := writeSynced(temporary, content, mode)
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		_ = os.Remove(temporary) // it may not be there
		return err
	}
	return nil
}

// writeSynced has the content on the disk before the name leads to it, or a crash of the node could leave an empty file.
func writeSynced(path string, content []byte, mode fs.FileMode) error {
	_ = os.Remove(path) // of an agent that was killed
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
