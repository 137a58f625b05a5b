module millrace.io/go_node

go 1.21
