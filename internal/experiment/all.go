// SPDX-License-Identifier: Apache-2.0

package experiment

// Register makes all experiments known to profiles.
func Register() {
}
