// SPDX-License-Identifier: Apache-2.0

package spread

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// AgainAfter is when to look again at what the cache did not know yet.
const AgainAfter = 200 * time.Millisecond

// IsStale tells whether something was otherwise than the cache knew.
func IsStale(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err)
}
