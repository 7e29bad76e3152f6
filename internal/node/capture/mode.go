// SPDX-License-Identifier: Apache-2.0

package capture

import "fmt"

// Mode says what of a pod's frames is captured. The values are those of enum ktsn_capture_mode in
// datapath/capture/record.h.
type Mode uint32

// Modes of capture.
const (
	// None drops what carries a transmit time, because it would leave early.
	None Mode = iota
	// Timed captures what carries a transmit time.
	Timed
	// All captures every frame.
	All
)

var modeNames = []string{None: "None", Timed: "Timed", All: "All"}

// ParseMode reads a mode as configurations and objects of the API name it.
func ParseMode(text string) (Mode, error) {
	for mode, name := range modeNames {
		if text == name {
			return Mode(mode), nil
		}
	}
	return None, fmt.Errorf(`%q is no mode of capture; give "None", "Timed" or "All"`, text)
}

func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("mode %d", uint32(m))
}

// MarshalText writes a mode as ParseMode reads it.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText is the inverse of MarshalText.
func (m *Mode) UnmarshalText(text []byte) (err error) {
	*m, err = ParseMode(string(text))
	return err
}
