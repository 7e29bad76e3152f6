// SPDX-License-Identifier: Apache-2.0

package security

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	// fileName is the file of the keyring, witnessName the file with its last revision.
	fileName    = "node-keys.json"
	witnessName = "node-keys.witness.json"
)

// stored is the file of a keyring.
type stored struct {
	// Ring identifies the keyring. Revision counts its writes.
	Ring     string `json:"ring"`
	Revision uint64 `json:"revision"`
	// Next and Previous may be nil.
	Current  *storedKey `json:"current"`
	Next     *storedKey `json:"next,omitempty"`
	Previous *storedKey `json:"previous,omitempty"`
	// PromotedUnix is the time since which Current is in use.
	PromotedUnix int64 `json:"promotedUnix"`
	// Kernel and Ktsnd are the last generations handed out.
	Kernel uint32 `json:"kernel"`
	Ktsnd  uint32 `json:"ktsnd"`
}

// storedKey is a key in the file.
type storedKey struct {
	Private  []byte `json:"private"`
	MadeUnix int64  `json:"madeUnix"`
}

// witness has the last written revision of a keyring, without secrets.
type witness struct {
	Ring     string `json:"ring"`
	Revision uint64 `json:"revision"`
}

// store has the folders of a keyring and its witness.
type store struct{ dir, witnessDir string }

// load reads a keyring; why is the reason if there is no usable one.
func (s store) load() (have *stored, why string, err error) {
	have, seen := &stored{}, &witness{}
	for _, file := range []struct {
		path string
		into any
	}{{filepath.Join(s.dir, fileName), have}, {filepath.Join(s.witnessDir, witnessName), seen}} {
		text, err := os.ReadFile(file.path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, file.path + " does not exist", nil
		}
		if err != nil {
			return nil, "", fmt.Errorf("read the node's keys: %w", err)
		}
		if json.Unmarshal(text, file.into) != nil {
			return nil, file.path + " is damaged", nil
		}
	}
	if have.Ring != seen.Ring || have.Revision < seen.Revision {
		return nil, filepath.Join(s.dir, fileName) + " is older than what was used", nil
	}
	return have, "", nil
}

// save writes the keyring, then the witness. After a crash in between, the file is ahead of the witness, which load accepts.
func (s store) save(what *stored) error {
	if err := write(s.dir, fileName, what); err != nil {
		return err
	}
	return write(s.witnessDir, witnessName, &witness{what.Ring, what.Revision})
}

// remove removes what save wrote.
func (s store) remove() error {
	var all error
	for _, path := range []string{filepath.Join(s.dir, fileName), filepath.Join(s.witnessDir, witnessName)} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			all = errors.Join(all, fmt.Errorf("remove the node's keys: %w", err))
		}
	}
	return all
}

// write replaces a file atomically, with mode 0600, and returns when it is on the disk.
func write(dir, name string, what any) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write the node's keys: %w", err)
		}
	}()
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(dir, name+".*") // of mode 0600
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
