// SPDX-License-Identifier: Apache-2.0

package clock

import (
	"fmt"
	"os"
	"path/filepath"
)

// followerFile in the local folder says that the clock has followed a grandmaster since the node started: /run is emptied by then. A
// ptp4l that becomes grandmaster itself has lost that one, which a process that starts anew could not tell.
const followerFile = "has-followed"

func wasFollower(local string) bool {
	_, err := os.Lstat(filepath.Join(local, followerFile))
	return err == nil
}

func rememberFollower(local string) error {
	if err := os.WriteFile(filepath.Join(local, followerFile), nil, 0o600); err != nil {
		return fmt.Errorf("remember that the clock follows a grandmaster: %w", err)
	}
	return nil
}
