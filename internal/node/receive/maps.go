// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/cilium/ebpf"
)

// Maps are the program's maps that this package fills and reads.
type Maps struct{ peers, endpoints, counts *ebpf.Map }

// ErrOtherRelease means that the pinned program or map is another release's. Attach replaces it.
var ErrOtherRelease = errors.New("it is of another release; run `ktsn node receive attach UPLINK`")

// Open opens the maps that the node has pinned in dir. It fails with ErrAbsent if there are none.
func Open(dir string) (*Maps, error) {
	dir, err := NodeDir(dir)
	if err != nil {
		return nil, err
	}
	// Stat needs no privilege, unlike bpf().
	if !exists(filepath.Join(dir, peersMap)) {
		return nil, ErrAbsent
	}
	opened := &Maps{}
	for _, entry := range []struct {
		name string
		into **ebpf.Map
		want size
	}{
		{peersMap, &opened.peers, size{36, 1}}, {endpointsMap, &opened.endpoints, size{12, 56}}, {countsMap, &opened.counts, size{4, 8}},
	} {
		if *entry.into, err = openMap(filepath.Join(dir, entry.name), entry.want); err != nil {
			opened.Close()
			return nil, err
		}
	}
	return opened, nil
}

// size is the size of a map's entries in bytes.
type size struct{ key, value uint32 }

func openMap(path string, want size) (*ebpf.Map, error) {
	opened, err := ebpf.LoadPinnedMap(path, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrAbsent
	}
	if err != nil {
		return nil, fmt.Errorf("open the pinned map %s: %w", path, err)
	}
	if have := (size{opened.KeySize(), opened.ValueSize()}); have != want {
		opened.Close()
		return nil, fmt.Errorf("%s: %w", path, ErrOtherRelease)
	}
	return opened, nil
}

// Close closes the maps. They stay pinned.
func (m *Maps) Close() {
	for _, opened := range []*ebpf.Map{m.peers, m.endpoints, m.counts} {
		if opened != nil {
			opened.Close()
		}
	}
}
