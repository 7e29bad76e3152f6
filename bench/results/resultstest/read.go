// SPDX-License-Identifier: Apache-2.0

package resultstest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/bench/results"
)

// Read reads the summary.json that a demo or bench has left in its folder.
func Read(t testing.TB, dir string) *results.Summary {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	summary := &results.Summary{}
	if err := json.Unmarshal(text, summary); err != nil {
		t.Fatal(err)
	}
	return summary
}
