// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const stateFile = "cluster.json"

// Save writes the plan into its folder, before anything of the cluster exists: removal reads it.
func (p *Plan) Save() error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("save the plan of cluster %s: %w", p.Name, err)
	}
	file := filepath.Join(p.Dir, stateFile)
	if err := os.WriteFile(file+".new", append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("save the plan of cluster %s: %w", p.Name, err)
	}
	return os.Rename(file+".new", file)
}

// ErrNone means that there is no cluster of that name.
var ErrNone = errors.New("there is no such cluster")

// Open reads the plan of an existing cluster.
func Open(name, root string) (*Plan, error) {
	text, err := os.ReadFile(filepath.Join(root, name, stateFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("cluster %s: %w; `ktsn-cluster up` makes one", name, ErrNone)
	}
	if err != nil {
		return nil, fmt.Errorf("cluster %s: %w", name, err)
	}
	var plan Plan
	if err := json.Unmarshal(text, &plan); err != nil {
		return nil, fmt.Errorf("cluster %s: %s: %w", name, stateFile, err)
	}
	return &plan, nil
}
