// SPDX-License-Identifier: Apache-2.0

package results

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// ReadSummary reads the summary.json of a demo or bench in a folder.
func ReadSummary(t testing.TB, dir string) *Summary {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	if err != nil {
		t.Fatal(err)
	}
	summary := &Summary{}
	if err := json.Unmarshal(text, summary); err != nil {
		t.Fatal(err)
	}
	return summary
}
