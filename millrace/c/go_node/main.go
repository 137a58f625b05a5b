// Command go_node is a node in Go, over the C interface: it adds up the column "id" of what it is fed, then
// answers each row of inference with twice its id and its name in capitals. go_node_test.py starts it.
package main

/*
#cgo LDFLAGS: -lmillrace
#include <stdint.h>
#include <stdlib.h>

#include "millrace/c/millrace.h"

// Arrow's C data interface, as its specification has it.
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};

static void ReleaseSchema(struct ArrowSchema* schema) { schema->release(schema); }
static void ReleaseArray(struct ArrowArray* array) { array->release(array); }
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"
)

// A statusError is what the library said.
type statusError struct {
	code    C.int32_t
	message string
}

func (e *statusError) Error() string {
	return C.GoString(C.millrace_code_name(e.code)) + ": " + e.message
}

// check makes a Go error of what a call has returned and put into failure.
func check(code C.int32_t, failure *C.millrace_error) error {
	if code == C.MILLRACE_OK {
		return nil
	}
	made := &statusError{code, C.GoString(failure.message)}
	C.millrace_error_clear(failure)
	return made
}

func newError() *C.millrace_error {
	return &C.millrace_error{struct_size: C.sizeof_millrace_error}
}

// A batch frees itself with close.
type batch struct{ handle *C.millrace_batch }

func (b batch) close() { C.millrace_batch_free(b.handle) }

// numbers are the values of a column of int64 where they lie: valid until close.
func (b batch) numbers(column string) ([]int64, error) {
	name := C.CString(column)
	defer C.free(unsafe.Pointer(name))
	tensor := C.millrace_tensor{struct_size: C.sizeof_millrace_tensor}
	failure := newError()
	if err := check(C.millrace_batch_tensor(b.handle, name, &tensor, failure), failure); err != nil {
		return nil, err
	}
	if tensor._type != C.MILLRACE_INT64 || tensor.ndim != 1 {
		return nil, fmt.Errorf("%s is no column of int64", column)
	}
	return unsafe.Slice((*int64)(tensor.data), int(tensor.shape[0])), nil
}

// texts are copies of a column of utf8, through Arrow.
func (b batch) texts(column string) ([]string, error) {
	name := C.CString(column)
	defer C.free(unsafe.Pointer(name))
	var schema C.struct_ArrowSchema
	var array C.struct_ArrowArray
	failure := newError()
	if err := check(C.millrace_batch_export_column(b.handle, name, &schema, &array, failure), failure); err != nil {
		return nil, err
	}
	defer C.ReleaseSchema(&schema)
	defer C.ReleaseArray(&array)
	if C.GoString(schema.format) != "u" {
		return nil, fmt.Errorf("%s is no column of text", column)
	}
	buffers := unsafe.Slice(array.buffers, 3)
	offsets := unsafe.Slice((*int32)(buffers[1]), int(array.offset+array.length)+1)[array.offset:]
	texts := make([]string, array.length)
	for i := range texts {
		begin, end := offsets[i], offsets[i+1]
		texts[i] = C.GoStringN((*C.char)(unsafe.Add(buffers[2], begin)), C.int(end-begin))
	}
	return texts, nil
}

// A feed reads one queue in one mode.
type feed struct{ handle *C.millrace_feed }

func openFeed(node *C.millrace_node, inference bool) (feed, error) {
	options := C.millrace_feed_options{struct_size: C.sizeof_millrace_feed_options}
	if inference {
		options.inference = 1
	}
	var opened feed
	failure := newError()
	err := check(C.millrace_feed_open(node, &options, &opened.handle, failure), failure)
	return opened, err
}

// forEach calls use for each batch of at most rows rows, until the feed ends.
func (f feed) forEach(rows int, use func(batch) error) error {
	failure := newError()
	for {
		var next batch
		err := check(C.millrace_feed_next(f.handle, C.int64_t(rows), &next.handle, failure), failure)
		if err != nil || next.handle == nil {
			return err
		}
		err = use(next)
		next.close()
		if err != nil {
			return err
		}
	}
}

// answer gives the results of as many rows as there are numbers and texts.
func (f feed) answer(numbers []int64, texts []string) error {
	builder := C.millrace_builder_new()
	defer C.millrace_builder_free(builder)
	failure := newError()
	var pinned runtime.Pinner
	defer pinned.Unpin()
	pinned.Pin(&numbers[0])
	tensor := C.millrace_tensor{struct_size: C.sizeof_millrace_tensor, _type: C.MILLRACE_INT64, ndim: 1}
	tensor.data = unsafe.Pointer(&numbers[0])
	tensor.shape[0] = C.int64_t(len(numbers))
	doubled := C.CString("doubled")
	defer C.free(unsafe.Pointer(doubled))
	if err := check(C.millrace_builder_add(builder, doubled, &tensor, nil, failure), failure); err != nil {
		return err
	}
	offsets := make([]C.int64_t, len(texts)+1)
	for i, text := range texts {
		offsets[i+1] = offsets[i] + C.int64_t(len(text))
	}
	bytes := C.CString(strings.Join(texts, ""))
	defer C.free(unsafe.Pointer(bytes))
	name := C.CString("name")
	defer C.free(unsafe.Pointer(name))
	rows := C.int64_t(len(texts))
	code := C.millrace_builder_add_strings(builder, name, bytes, &offsets[0], rows, 0, nil, failure)
	if err := check(code, failure); err != nil {
		return err
	}
	var schema C.struct_ArrowSchema
	var array C.struct_ArrowArray
	if err := check(C.millrace_builder_finish(builder, &schema, &array, failure), failure); err != nil {
		return err
	}
	return check(C.millrace_feed_results(f.handle, &schema, &array, failure), failure)
}

func train(node *C.millrace_node) error {
	input, err := openFeed(node, false)
	if err != nil {
		return err
	}
	defer C.millrace_feed_close(input.handle)
	var sum, rows int64
	err = input.forEach(7, func(b batch) error {
		ids, err := b.numbers("id")
		for _, id := range ids {
			sum += id
		}
		rows += int64(len(ids))
		return err
	})
	name := C.CString("sum")
	defer C.free(unsafe.Pointer(name))
	C.millrace_report_metric(node, name, C.int64_t(rows), C.double(sum))
	return err
}

func infer(node *C.millrace_node) error {
	input, err := openFeed(node, true)
	if err != nil {
		return err
	}
	defer C.millrace_feed_close(input.handle)
	return input.forEach(5, func(b batch) error {
		ids, err := b.numbers("id")
		if err != nil {
			return err
		}
		names, err := b.texts("name")
		if err != nil {
			return err
		}
		doubled := make([]int64, len(ids))
		for i, id := range ids {
			doubled[i], names[i] = 2*id, strings.ToUpper(names[i])
		}
		return input.answer(doubled, names)
	})
}

// run is the program between taking the node's place and giving it back.
func run() error {
	var node *C.millrace_node
	failure := newError()
	if err := check(C.millrace_node_open(&node, failure), failure); err != nil {
		return err
	}
	err := train(node)
	if err == nil {
		err = infer(node)
	}
	code, message := C.int32_t(C.MILLRACE_OK), ""
	if err != nil {
		code, message = C.MILLRACE_UNKNOWN, err.Error()
		if status, is := err.(*statusError); is {
			code, message = status.code, status.message
		}
	}
	text := C.CString(message)
	defer C.free(unsafe.Pointer(text))
	return check(C.millrace_node_close(node, code, text, failure), failure)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "go_node:", err)
		os.Exit(C.MILLRACE_EXIT_FAILED)
	}
}
