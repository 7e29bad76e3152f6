/* SPDX-License-Identifier: Apache-2.0 */
#include "records.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

int records_map(size_t capacity, size_t resident, size_t record_bytes, void **records)
{
	void *memory = mmap(NULL, capacity * record_bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED)
		return -errno;
	memset(memory, 0, resident * record_bytes);
	*records = memory;
	return 0;
}

void records_unmap(void *records, size_t capacity, size_t record_bytes)
{
	if (records)
		munmap(records, capacity * record_bytes);
}
