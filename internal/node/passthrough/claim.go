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

// claimPath is a link that leads to whom a card belongs, beside the note of its driver. A link is made in one step, and there is one
// of a name.
func (b *Bus) claimPath(address string) string { return b.notePath(address) + claimSuffix }

// Claim has a card belong to somebody alone. That it is his already is no error; false: it is another's.
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

// Claimed is to whom a card belongs; "": to nobody.
func (b *Bus) Claimed(address string) string {
	owner, err := os.Readlink(b.claimPath(address))
	if err != nil {
		return ""
	}
	return owner
}

// Claims are the owners of all cards that belong to somebody, by address.
func (b *Bus) Claims() map[string]string {
	all := map[string]string{}
	for _, name := range names(b.StateDir) {
		if address, ok := strings.CutSuffix(name, claimSuffix); ok {
			all[address] = b.Claimed(address)
		}
	}
	return all
}

// GiveBack unbinds a card of an owner's, and has it belong to nobody. One that is not his stays as it is. A card that is not there any
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
