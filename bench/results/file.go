// SPDX-License-Identifier: Apache-2.0

package results

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// WriteFile writes a file under a temporary name and renames it when it is complete and on the disk: a reader never
// sees a partial file.
func WriteFile(path string, write func(io.Writer) error) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), TemporaryPrefix+filepath.Base(path)+"-")
	if err != nil {
		return err
	}
	success := false
	defer func() {
		if !success {
			_ = file.Close() // may be closed already
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	if err := write(file); err != nil {
		return err
	}
	if err := errors.Join(file.Chmod(0o644), file.Sync()); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	success = true
	return nil
}

// WriteJSON writes a value as an indented JSON file by WriteFile.
func WriteJSON(path string, value any) error {
	return WriteFile(path, func(out io.Writer) error {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(value)
	})
}

// TemporaryPrefix begins the names of files that WriteFile has not completed.
const TemporaryPrefix = "."
