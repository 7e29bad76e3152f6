// SPDX-License-Identifier: Apache-2.0

package csi

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kubernetsn/kubernetsn/internal/node/overlay"
)

func (v *Volumes) recordsDir() string { return filepath.Join(v.Dir, "volumes") }

// recordPath returns a safe path for any id.
func (v *Volumes) recordPath(id string) string {
	sum := sha256.Sum256([]byte(id))
	return filepath.Join(v.recordsDir(), hex.EncodeToString(sum[:16]))
}

func (v *Volumes) write(volume Volume) error {
	text, err := json.Marshal(volume)
	if err == nil {
		err = os.MkdirAll(v.recordsDir(), 0o700)
	}
	if err == nil {
		err = overlay.WriteFile(v.recordPath(volume.ID), text)
	}
	if err != nil {
		return fmt.Errorf("record the volume: %w", err)
	}
	return nil
}

func (v *Volumes) read(id string) (*Volume, error) { return readRecord(v.recordPath(id)) }

func readRecord(path string) (*Volume, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the record of a volume: %w", err)
	}
	var volume Volume
	if err := json.Unmarshal(text, &volume); err != nil {
		return nil, fmt.Errorf("read the record of a volume, %s: %w; remove the file when no pod has that volume", path, err)
	}
	return &volume, nil
}

func (v *Volumes) erase(id string) error {
	for _, path := range []string{v.recordPath(id), v.recordPath(id) + overlay.Unfinished} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the record of the volume: %w", err)
		}
	}
	return nil
}

// All lists the published volumes. Unreadable records are returned as an error together with the readable ones.
func (v *Volumes) All() ([]Volume, error) {
	entries, err := os.ReadDir(v.recordsDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the volumes: %w", err)
	}
	var volumes []Volume
	var errs error
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), overlay.Unfinished) {
			continue
		}
		volume, err := readRecord(filepath.Join(v.recordsDir(), entry.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // unpublished meanwhile
		}
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		volumes = append(volumes, *volume)
	}
	return volumes, errs
}

// others returns the number of a pod's other volumes.
func (v *Volumes) others(uid, id string) (int, error) {
	volumes, err := v.All()
	if err != nil {
		return 0, err
	}
	count := 0
	for _, volume := range volumes {
		if volume.UID == uid && volume.ID != id {
			count++
		}
	}
	return count, nil
}

// PodDirs lists the UIDs of pods that have a folder, whether or not a volume is recorded.
func (v *Volumes) PodDirs() ([]string, error) {
	entries, err := os.ReadDir(v.podsDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list the pods' folders: %w", err)
	}
	var uids []string
	for _, entry := range entries {
		uids = append(uids, entry.Name())
	}
	return uids, nil
}
