// SPDX-License-Identifier: Apache-2.0

// Package asker has a pod ask another one all the time, by its name, and tells from what the asking pod has noted how long nobody answered.
// Who answers is agnhost's `netexec`, which returns by UDP what follows the word "echo".
package asker
