// SPDX-License-Identifier: Apache-2.0

package netnstarget

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/kubernetsn/kubernetsn/bench/internal/guestrig"
	"github.com/kubernetsn/kubernetsn/internal/testlab/cniruntime"
)

// Programs are the absolute paths of built programs.
type Programs struct {
	ktsnd   string
	library string
	tsnperf string
	// plugins is the folder of the network plugins.
	plugins string
	// Guests are the parts of virtual machines; nil: there are none.
	Guests *guestrig.Parts
	// sums are SHA-256 sums by name, which identify the build.
	sums map[string]string
}

// FindPrograms returns the programs that the paths need. An error says how to build missing ones.
func FindPrograms(binDir string, needDaemon bool) (*Programs, error) {
	dir, err := filepath.Abs(binDir)
	if err != nil {
		return nil, fmt.Errorf("find programs: %w", err)
	}
	programs := &Programs{
		ktsnd:   filepath.Join(dir, "ktsnd"),
		library: filepath.Join(dir, "libktsn.so"),
		tsnperf: filepath.Join(dir, "tsnperf"),
		plugins: dir,
		sums:    map[string]string{},
	}
	needed := []string{programs.tsnperf}
	for _, plugin := range cniruntime.Plugins {
		needed = append(needed, filepath.Join(dir, plugin))
	}
	if needDaemon {
		needed = append(needed, programs.ktsnd, programs.library)
	}
	for _, path := range needed {
		sum, err := sumOf(path)
		if os.IsNotExist(err) {
			return nil, fmt.Errorf("%s is missing; run `make build`, or name its folder with --bin-dir", path)
		}
		if err != nil {
			return nil, fmt.Errorf("find programs: %w", err)
		}
		programs.sums[filepath.Base(path)] = sum
	}
	return programs, nil
}

func sumOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
