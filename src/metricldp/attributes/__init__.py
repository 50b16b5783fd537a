"""attributes"""
