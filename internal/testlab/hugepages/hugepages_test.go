// SPDX-License-Identifier: Apache-2.0

package hugepages

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// others is the number of pages that others have reserved.
const others = 7

// fake returns a machine with files in place of the kernel's.
func fake(t *testing.T) (*machine, func() int) {
	t.Helper()
	dir := t.TempDir()
	m := &machine{count: filepath.Join(dir, "nr"), meminfo: filepath.Join(dir, "meminfo"), lock: filepath.Join(dir, "lock"),
		between: func(string) {}}
	for path, text := range map[string]string{m.count: strconv.Itoa(others) + "\n", m.meminfo: defaultSize + "\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return m, func() int {
		t.Helper()
		count, err := (&turn{machine: m}).read()
		if err != nil {
			t.Fatal(err)
		}
		return count
	}
}

// dies calls a function and ends it at a step like a kill: the rest is not done, and the kernel releases the lock. With
// fewer steps the function completes.
func dies(m *machine, at int, do func() error) {
	step := 0
	m.between = func(string) {
		if step++; step > at {
			panic("killed")
		}
	}
	defer func() {
		m.between = func(string) {}
		_ = recover()
	}()
	_ = do()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestSetAsideAndGiveBack(t *testing.T) {
	m, count := fake(t)
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	must(t, m.setAside(a, 10))
	must(t, m.setAside(b, 20))
	if count() != 37 {
		t.Errorf("there are %d pages", count())
	}
	for range 2 { // the second time there is nothing to release
		must(t, m.giveBack(a))
	}
	if count() != 27 {
		t.Errorf("without the first there are %d pages", count())
	}
	must(t, m.giveBack(b))
	if count() != others || exists(a) || exists(b) {
		t.Errorf("left are %d pages and notes %v %v", count(), exists(a), exists(b))
	}
}

// A process is killed at any step, and then its cleaner at any step: after a complete run nothing is left, and pages of
// others are untouched.
func TestKillAtAnyStep(t *testing.T) {
	for name, next := range map[string]func(m *machine, note, other string) error{
		"who cleans up":  func(m *machine, note, _ string) error { return m.giveBack(note) },
		"somebody else":  func(m *machine, _, other string) error { return m.setAside(other, 5) },
		"a third's note": func(m *machine, _, other string) error { return m.giveBack(other) },
	} {
		for _, giving := range []bool{false, true} {
			for first := range 4 {
				for second := range 5 {
					t.Run(fmt.Sprintf("%s, giving back %v, killed at %d and %d", name, giving, first, second), func(t *testing.T) {
						m, count := fake(t)
						note, other := filepath.Join(t.TempDir(), "note"), filepath.Join(t.TempDir(), "other")
						do := func() error { return m.setAside(note, 10) }
						if giving {
							must(t, m.setAside(note, 10))
							do = func() error { return m.giveBack(note) }
						}
						dies(m, first, do)
						dies(m, second, func() error { return next(m, note, other) })
						must(t, m.giveBack(other))
						must(t, m.giveBack(note))
						if count() != others || exists(note) || exists(other) {
							t.Errorf("left are %d pages, want %d, and notes %v %v", count(), others, exists(note), exists(other))
						}
					})
				}
			}
		}
	}
}

func TestTooFewPages(t *testing.T) {
	m, count := fake(t)
	note := filepath.Join(t.TempDir(), "note")
	m.between = func(step string) {
		if step == "counted" && count() == 17 { // the kernel has memory for three
			must(t, os.WriteFile(m.count, []byte("10\n"), 0o600))
		}
	}
	if err := m.setAside(note, 10); err == nil || !strings.Contains(err.Error(), "memory for 3 hugepages of 2 MB, and 10 are needed") {
		t.Errorf("got %v", err)
	}
	must(t, m.giveBack(note))
	if count() != others {
		t.Errorf("left are %d pages", count())
	}
}

func TestForeignLockIsRejected(t *testing.T) {
	m, count := fake(t)
	victim, note := filepath.Join(t.TempDir(), "victim"), filepath.Join(t.TempDir(), "note")
	must(t, os.WriteFile(victim, nil, 0o600))
	text := fmt.Appendf(nil, "{\"note\":%q,\"count\":0}\n", victim)
	for name, lay := range map[string]func() error{
		"others may write": func() error { return os.Chmod(m.lock, 0o666) },
		"a second name":    func() error { return os.Link(m.lock, m.lock+"2") },
		"a link":           func() error { must(t, os.Rename(m.lock, m.lock+"3")); return os.Symlink(m.lock+"3", m.lock) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, old := range []string{m.lock, m.lock + "2", m.lock + "3"} {
				_ = os.Remove(old)
			}
			must(t, os.WriteFile(m.lock, text, 0o600))
			must(t, lay())
			if err := m.setAside(note, 10); err == nil {
				t.Error("it was taken")
			}
			if count() != others || !exists(victim) || exists(note) {
				t.Errorf("there are %d pages, the victim %v, a note %v", count(), exists(victim), exists(note))
			}
		})
	}
}

func TestConcurrentUse(t *testing.T) {
	m, count := fake(t)
	var wait sync.WaitGroup
	for i := range 20 {
		wait.Add(1)
		note := filepath.Join(t.TempDir(), strconv.Itoa(i))
		go func() {
			defer wait.Done()
			if err := m.setAside(note, i); err != nil {
				t.Error(err)
			}
			if err := m.giveBack(note); err != nil {
				t.Error(err)
			}
		}()
	}
	wait.Wait()
	if count() != others {
		t.Errorf("left are %d pages", count())
	}
}
