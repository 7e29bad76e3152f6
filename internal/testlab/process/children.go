// SPDX-License-Identifier: Apache-2.0

package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Children returns the running child processes of a process.
func Children(pid int) ([]int, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil, err
	}
	var all []int
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue // the thread has just ended
		}
		if err != nil {
			return nil, err
		}
		for word := range strings.FieldsSeq(string(text)) {
			child, err := strconv.Atoi(word)
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", file, err)
			}
			all = append(all, child)
		}
	}
	return all, nil
}

// Find lists the processes whose command line contains text, as "file in /proc: command line".
func Find(text string) []string {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var matching []string
	for _, file := range files {
		words, err := os.ReadFile(file)
		if err == nil && strings.Contains(string(words), text) {
			matching = append(matching, file+": "+strings.ReplaceAll(string(words), "\x00", " "))
		}
	}
	return matching
}
