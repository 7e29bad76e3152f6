// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/cilium/ebpf"
)

// openMaps has the open maps of a program by name.
type openMaps map[string]*ebpf.Map

// open opens the maps of the program at an interface. It fails with ErrUnattached if there is no program.
func (h hook) open(interfaceName string) (openMaps, error) {
	opened, _, err := h.openWithID(interfaceName)
	return opened, err
}

// openWithID also returns the ID of the program.
func (h hook) openWithID(interfaceName string) (openMaps, ebpf.ProgramID, error) {
	filter, err := h.find(interfaceName)
	if err != nil {
		return nil, 0, err
	}
	if filter == nil {
		return nil, 0, fmt.Errorf("%s: %w", interfaceName, ErrUnattached)
	}
	id := ebpf.ProgramID(filter.Id)
	opened, err := openMapsOf(id)
	if err != nil {
		return nil, 0, fmt.Errorf("open the maps of %s at %s: %w", h.Name, interfaceName, err)
	}
	if !opened.areOf(h) {
		opened.close()
		return nil, 0, fmt.Errorf("the program at %s is not ours", interfaceName)
	}
	return opened, id, nil
}

// areOf reports whether all maps of the hook's program are open.
func (m openMaps) areOf(h hook) bool {
	for _, name := range mapsOf[h.Name] {
		if m[name] == nil {
			return false
		}
	}
	return true
}

// knownMaps has the IDs of programs' maps by name, which the kernel describes more slowly than it opens them. It does not give an ID again
// before two billion others.
var knownMaps = struct {
	sync.Mutex
	byProgram map[ebpf.ProgramID]map[string]ebpf.MapID
}{byProgram: map[ebpf.ProgramID]map[string]ebpf.MapID{}}

// maxKnownMaps limits knownMaps, which also has programs that are gone.
const maxKnownMaps = 4096

// openKnownMaps opens the maps of a program that knownMaps has, nil if it does not.
func openKnownMaps(id ebpf.ProgramID) openMaps {
	knownMaps.Lock()
	ids := knownMaps.byProgram[id]
	knownMaps.Unlock()
	if ids == nil {
		return nil
	}
	opened := openMaps{}
	for name, id := range ids {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			opened.close()
			return nil
		}
		opened[name] = m
	}
	return opened
}

func rememberMaps(id ebpf.ProgramID, ids map[string]ebpf.MapID) {
	knownMaps.Lock()
	defer knownMaps.Unlock()
	if len(knownMaps.byProgram) >= maxKnownMaps {
		clear(knownMaps.byProgram)
	}
	knownMaps.byProgram[id] = maps.Clone(ids)
}

func openMapsOf(id ebpf.ProgramID) (openMaps, error) {
	program, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return nil, err
	}
	defer program.Close()
	if opened := openKnownMaps(id); opened != nil {
		return opened, nil
	}
	info, err := program.Info()
	if err != nil {
		return nil, err
	}
	ids, known := info.MapIDs()
	if !known {
		return nil, errors.New("the kernel does not say which they are")
	}
	opened, named := openMaps{}, map[string]ebpf.MapID{}
	for _, id := range ids {
		m, err := ebpf.NewMapFromID(id)
		if err != nil {
			continue // the caller checks for missing maps
		}
		described, err := m.Info()
		if err != nil || opened[described.Name] != nil {
			m.Close()
			continue
		}
		opened[described.Name], named[described.Name] = m, id
	}
	if len(opened) == len(ids) {
		rememberMaps(id, named)
	}
	return opened, nil
}

// take removes a map, which the caller then owns.
func (m openMaps) take(name string) *ebpf.Map {
	taken := m[name]
	delete(m, name)
	return taken
}

func (m openMaps) close() {
	for _, opened := range m {
		opened.Close()
	}
}
