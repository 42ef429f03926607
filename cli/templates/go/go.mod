module example.com/word_count

go 1.21
