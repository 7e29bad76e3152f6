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

// keyBytes of a hash are enough to tell versions apart.
const keyBytes = 8

// key stands for all that the programs of a component depend on: its module with the versions in it (the
// toolchain's, too), and how it is built.
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
