// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestWhatAProcessUsesIsRead(t *testing.T) {
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var ticks int64
	for began := time.Now(); ticks < 2 && time.Since(began) < 10*time.Second; { // busy, until it has used something
		program, used, err := readStat(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		if program != filepath.Base(executable) {
			t.Fatalf("this program is %q, want %q", program, filepath.Base(executable))
		}
		ticks = used
	}
	if ticks < 2 {
		t.Errorf("a busy process has used %d ticks", ticks)
	}
	memory, err := pss(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if memory < 1<<20 || memory > 1<<32 {
		t.Errorf("it uses %d bytes of memory", memory)
	}
}

func TestGoneProcessUsesNothing(t *testing.T) {
	const none = 1 << 30 // more than there can be
	if _, _, err := readStat(none); !isGone(err) {
		t.Errorf("%v", err)
	}
	if memory, err := pss(none); err != nil || memory != 0 {
		t.Errorf("%d bytes, %v", memory, err)
	}
}
