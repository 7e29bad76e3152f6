// SPDX-License-Identifier: Apache-2.0

package passthrough

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

const claimSuffix = ".of"

// claimPath is a symbolic link to the owner's name, next to the note of the driver. Creating a link is atomic and fails
// if it exists.
func (b *Bus) claimPath(address string) string { return b.notePath(address) + claimSuffix }

// Claim makes an owner the only owner of a card. It returns true if it is or becomes the owner, false if another one
// is.
func (b *Bus) Claim(address, owner string) (bool, error) {
	if err := os.MkdirAll(b.StateDir, 0o755); err != nil {
		return false, err
	}
	err := os.Symlink(owner, b.claimPath(address))
	if errors.Is(err, fs.ErrExist) {
		return b.Claimed(address) == owner, nil
	}
	if err != nil {
		return false, fmt.Errorf("write down whose %s is: %w", address, err)
	}
	return true, nil
}

// Claimed returns the owner of a card, "" for none.
func (b *Bus) Claimed(address string) string {
	owner, err := os.Readlink(b.claimPath(address))
	if err != nil {
		return ""
	}
	return owner
}

// Claims returns the owners of all cards that have one, by address.
func (b *Bus) Claims() map[string]string {
	all := map[string]string{}
	for _, name := range names(b.StateDir) {
		if address, ok := strings.CutSuffix(name, claimSuffix); ok {
			all[address] = b.Claimed(address)
		}
	}
	return all
}

// GiveBack unbinds a card and removes its owner. A card of another owner stays as it is. A card that is not there any
// more has no driver to go back to.
func (b *Bus) GiveBack(address, owner string) error {
	if b.Claimed(address) != owner {
		return nil
	}
	if _, err := os.Stat(b.path(address)); errors.Is(err, fs.ErrNotExist) {
		return b.forget(address)
	}
	_, err := b.UnbindAnyway(address) // and forgets it
	return err
}
