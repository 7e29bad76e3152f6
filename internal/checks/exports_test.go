// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestManPageNamesExports compares the functions that libktsn.so exports, as check_elf.sh lists them, with libktsn(7).
func TestManPageNamesExports(t *testing.T) {
	script := read(t, "datapath/tests/elf/check_elf.sh")
	list := regexp.MustCompile(`(?m)^expected='([^']*)'$`).FindStringSubmatch(script)
	if list == nil {
		t.Fatal("check_elf.sh has no list of expected functions")
	}
	intercepted := section(t, "libktsn.7", ".Sh WHAT IS INTERCEPTED")
	named := map[string]bool{}
	for _, match := range regexp.MustCompile(`\bFn ([a-z0-9_]+)`).FindAllStringSubmatch(intercepted, -1) {
		named[match[1]] = true
	}
	for _, function := range strings.Fields(list[1]) {
		if !named[function] {
			t.Errorf("libktsn(7) does not name %s", function)
		}
		delete(named, function)
	}
	for function := range named {
		if function != "vfork" {
			t.Errorf("libktsn(7) names %s, which libktsn.so does not export", function)
		}
	}
}

// TestManPageNamesSystemCalls compares the system calls that libktsn.so makes by itself with libktsn(7). The calls
// of next.c are the program's own; the page names the functions that make another call in their place.
func TestManPageNamesSystemCalls(t *testing.T) {
	inPlace := []string{"close_range", "epoll_pwait"}
	calls := map[string]bool{}
	for _, name := range inPlace {
		calls[name] = true
	}
	for _, folder := range []string{"preload/*", "client"} {
		files, err := filepath.Glob(filepath.Join(root, "datapath", folder, "*.[ch]"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", folder, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if filepath.Base(file) == "next.c" {
				continue
			}
			for _, call := range regexp.MustCompile(`\bkernel_call\(SYS_([a-z0-9_]+)`).FindAllSubmatch(text, -1) {
				calls[string(call[1])] = true
			}
		}
	}
	named := map[string]bool{}
	for line := range strings.Lines(section(t, "libktsn.7", ".Sh SYSTEM CALLS")) {
		if strings.HasPrefix(line, ".It ") {
			continue
		}
		for _, match := range regexp.MustCompile(`\bFn ([a-z0-9_]+)`).FindAllStringSubmatch(line, -1) {
			named[match[1]] = true
		}
	}
	if want, got := slices.Sorted(maps.Keys(calls)), slices.Sorted(maps.Keys(named)); !slices.Equal(got, want) {
		t.Errorf("libktsn(7) names the system calls\n%v\nlibktsn.so makes\n%v", got, want)
	}
}
