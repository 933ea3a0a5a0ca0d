"""What several finished runs say together: one page of questions, each with a short answer, its numbers, a picture."""
