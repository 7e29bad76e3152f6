// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
)

// Fingerprint identifies an image without building it: it changes with the definition, and with the size or the
// modification time of a file, like make.
func Fingerprint(definition *Definition, sources Sources) (string, error) {
	entries, err := collect(definition, sources)
	if err != nil {
		return "", fmt.Errorf("image %s: %w", definition.Name, err)
	}
	sum := sha256.New()
	if err := json.NewEncoder(sum).Encode(definition); err != nil {
		return "", fmt.Errorf("image %s: %w", definition.Name, err)
	}
	for _, at := range slices.Sorted(maps.Keys(entries)) {
		e := entries[at]
		fmt.Fprintf(sum, "%s %s %v %d", at, e.source, e.mode, e.size)
		if e.source != "" {
			info, err := os.Stat(e.source)
			if err != nil {
				return "", fmt.Errorf("image %s: %w", definition.Name, err)
			}
			fmt.Fprintf(sum, " %d", info.ModTime().UnixNano())
		}
		fmt.Fprintln(sum)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
