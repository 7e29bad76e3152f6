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

// seenName is the file with the newest statements about other nodes, next to the node's keys.
const seenName = "seen-nodes.json"

// Seen is the newest statement about a node that was accepted: the public key of the cluster that signed it, and its number.
type Seen struct {
	ClusterKey string `json:"clusterKey"`
	Sequence   int64  `json:"sequence"`
}

// LoadSeen reads the file of SaveSeen in a folder. damaged is why the file cannot be used, "" if it can or there is none.
func LoadSeen(dir string) (seen map[string]Seen, damaged string, err error) {
	path := filepath.Join(dir, seenName)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]Seen{}, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("read the newest statements about other nodes: %w", err)
	}
	if err := json.Unmarshal(text, &seen); err != nil || seen == nil {
		return map[string]Seen{}, path + " is damaged", nil
	}
	return seen, "", nil
}

// SaveSeen replaces the file in a folder, and returns when it is on the disk.
func SaveSeen(dir string, seen map[string]Seen) error { return write(dir, seenName, seen) }
