// SPDX-License-Identifier: Apache-2.0

package components

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"os"
	"path/filepath"
)

// keyBytes of a hash distinguish versions well enough.
const keyBytes = 8

// key is a hash of everything that a component's programs depend on: its module, which has the versions including the
// toolchain's, and the way it is built.
func (c component) key(module string) (string, error) {
	sum := sha256.New()
	fmt.Fprintf(sum, "%+v\n", c)
	files, err := filepath.Glob(filepath.Join(module, "*"))
	if err != nil {
		return "", err
	}
	for _, file := range files {
		if err := addFile(sum, file); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:keyBytes]), nil
}

func addFile(sum hash.Hash, file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	fmt.Fprintf(sum, "%s %d\n", filepath.Base(file), len(content))
	sum.Write(content)
	return nil
}
