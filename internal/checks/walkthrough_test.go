// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"slices"
	"strings"
	"testing"

	"github.com/kubernetsn/kubernetsn/internal/testlab/walkthrough"
)

// Limits of the README.
const (
	maxReadmeLines = 150
	// maxFirstWords is how many words come before the first steps in a cluster.
	maxFirstWords = 700
)

func TestReadmeIsShort(t *testing.T) {
	text := read(t, "README.md")
	if lines := strings.Count(text, "\n"); lines > maxReadmeLines {
		t.Errorf("README.md has %d lines, want at most %d", lines, maxReadmeLines)
	}
	before, _, ok := strings.Cut(text, "\n## Try it on Kubernetes\n")
	if words := len(strings.Fields(before)); !ok || words > maxFirstWords {
		t.Errorf("README.md has %d words before the steps in a cluster, want at most %d", words, maxFirstWords)
	}
}

// TestReadmeShowsQuickstart compares README.md with docs/guide/quickstart.md, whose commands `make e2e` runs: each line of
// commands and of output in README.md must be in the guide, in the same order.
func TestReadmeShowsQuickstart(t *testing.T) {
	readme, err := walkthrough.Read(read(t, "README.md"))
	if err != nil || len(readme) == 0 {
		t.Fatalf("README.md: %d marked blocks, %v", len(readme), err)
	}
	guide, err := walkthrough.Read(read(t, "docs/guide/quickstart.md"))
	if err != nil {
		t.Fatalf("docs/guide/quickstart.md: %v", err)
	}
	contains := func(what, in, lines string) {
		left := strings.Split(in, "\n")
		for line := range strings.Lines(lines) {
			at := slices.Index(left, strings.TrimSuffix(line, "\n"))
			if at < 0 {
				t.Errorf("README.md: %s line %q is not in docs/guide/quickstart.md, or in another order", what, line)
				continue
			}
			left = left[at+1:]
		}
	}
	var commands, output strings.Builder
	for _, block := range guide {
		commands.WriteString(block.Commands)
		output.WriteString(block.Output)
	}
	for _, block := range readme {
		contains("command", commands.String(), block.Commands)
		contains("output", output.String(), block.Output)
	}
}
